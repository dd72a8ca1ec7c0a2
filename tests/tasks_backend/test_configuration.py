"""Django's tasks on this queue: TASKS, the system checks, and what is loaded when."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import django
import pytest
from django.core.checks import run_checks
from pytest_django import Settings

from jobs import registry
from jobs.apps import load_task_backends
from jobs.tasks_backend.framework import task_backends
from tests.conftest import Declare
from tests.support import ROOT

PATH = "jobs.tasks_backend.SprocketBackend"


def problems() -> list[tuple[str | None, str]]:
    ours = ("jobs.E03", "jobs.W03")
    return [(found.id, found.msg) for found in run_checks() if (found.id or "").startswith(ours)]


@pytest.mark.django_db
def test_the_settings_of_the_tests_are_in_order() -> None:
    assert problems() == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("params", "id", "text"),
    [
        ({"OPTIONS": {"MAX_ATTEMPTS": 0}}, "jobs.E032", "MAX_ATTEMPTS must be a whole number"),
        ({"OPTIONS": {"MAX_ATTEMPTS": "3"}}, "jobs.E032", "not '3'"),
        ({"OPTIONS": {"RETRIES": 3}}, "jobs.E031", "no option 'RETRIES'"),
        ({"QUEUES": ["a,b"]}, "jobs.E033", "contains a comma"),
        ({"QUEUES": ["a" * 100]}, "jobs.E033", "is longer than"),
        ({"ENQUEUE_ON_COMMIT": False}, "jobs.W030", "has no effect"),
    ],
)
def test_a_wrong_setting_is_named(
    params: dict[str, Any], id: str, text: str, settings: Settings, declare: Declare
) -> None:
    settings.TASKS = {"default": {"BACKEND": PATH}, "wrong": {"BACKEND": PATH, **params}}
    ((found, message),) = problems()
    assert found == id
    assert text in message
    assert message.startswith("TASKS['wrong']")


def test_a_site_without_the_app_is_told(settings: Settings) -> None:
    backend = task_backends["default"]
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name not in ("jobs", "videos")]
    assert [message.id for message in backend.check()] == ["jobs.E030"]


def test_listed_queues_are_known_before_anything_is_enqueued() -> None:
    assert {"django.task", "django.task.mail"} <= {kind.name for kind in registry.all_types()}


def test_what_else_is_in_tasks_is_left_to_its_framework(settings: Settings, declare: Declare) -> None:
    registry._types.clear()
    settings.TASKS = {"a": {"BACKEND": "no.such.backend"}, "b": {}, "c": {"BACKEND": "os.getcwd"}}
    load_task_backends()
    assert registry.all_types() == []


def python(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "site_settings", "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


SETTINGS = f"""
SECRET_KEY = "x"
USE_TZ = True
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}}
TASKS = {{"default": {{"BACKEND": "{PATH}", "QUEUES": ["default", "early"]}}}}
INSTALLED_APPS = ["shop", "jobs"]
"""


def test_a_task_may_be_declared_while_models_are_loaded(tmp_path: Path) -> None:
    """models.py imports tasks.py, in an app that is loaded before ours."""
    home = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"
    (tmp_path / "site_settings.py").write_text(SETTINGS)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "models.py").write_text("from shop.tasks import ship\n")
    (tmp_path / "shop" / "tasks.py").write_text(
        f"from {home} import task\n@task(queue_name='early')\ndef ship(): pass\n"
    )
    code = "import django; django.setup(); from jobs import registry; print([k.name for k in registry.all_types()])"
    done = python(code, tmp_path)
    assert done.stdout.strip() == "['django.task', 'django.task.early', 'jobs.alert']", done.stderr


def test_a_site_that_does_not_use_tasks_loads_nothing_of_it(tmp_path: Path) -> None:
    kept = [line for line in SETTINGS.splitlines() if not line.startswith("TASKS")]
    (tmp_path / "site_settings.py").write_text("\n".join(kept).replace('"shop", ', ""))
    code = (
        "import sys, django; django.setup(); from jobs import registry; names = [k.name for k in registry.all_types()];"
        " print('jobs.tasks_backend' in sys.modules, 'django_tasks' in sys.modules, names)"
    )
    done = python(code, tmp_path)
    assert done.stdout.strip() == "False False ['jobs.alert']", done.stderr


@pytest.mark.skipif(django.VERSION >= (6, 0), reason="Django has it")
def test_a_missing_framework_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "site_settings.py").write_text(SETTINGS.replace('"shop", ', ""))
    done = python("import sys; sys.modules['django_tasks'] = None; import django; django.setup()", tmp_path)
    assert "ImproperlyConfigured" in done.stderr
    assert "pip install sprocket-queue[tasks]" in done.stderr


@pytest.mark.skipif(
    django.VERSION < (6, 0) or not importlib.util.find_spec("django_tasks"),
    reason="a site on its way to Django 6",
)
@pytest.mark.django_db
def test_call_sites_of_the_package_work_on_django_6() -> None:
    from django_tasks import task

    from tests.jobapp import tasks

    moved: Any = task(tasks.add.func)
    assert type(moved) is type(tasks.add)
    result = moved.enqueue(1)
    assert tasks.add.get_result(result.id).args == [1]
