"""`from jobs import …` works from any module, at any time, for every name that is promised."""

from __future__ import annotations

import subprocess
import sys

import pytest

import jobs
from tests.support import ROOT

PROMISED = {
    *("job_type", "enqueue", "enqueue_many", "snapshot", "JobContext", "PermanentFailure", "RetryLater"),
    *("HIGH", "NORMAL", "LOW"),
}
"""The names of the issue that ordered this queue."""


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_was_promised_is_there() -> None:
    assert set(jobs.__all__) >= PROMISED
    assert jobs.__all__ == sorted(jobs.__all__, key=lambda name: (not name.isupper(), name.islower(), name))


@pytest.mark.parametrize("name", jobs.__all__)
def test_every_name_is_what_it_says_also_after_all_submodules_were_imported(name: str) -> None:
    value = getattr(jobs, name)
    assert not isinstance(value, type(sys)), f"jobs.{name} is a module"
    assert getattr(value, "__name__", name) == name


def test_every_name_can_be_imported_first_of_all_and_after_everything_else() -> None:
    """Submodules become attributes of their package when they are imported: none may hide a public name."""
    code = f"""
import os, pkgutil, importlib
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
import django
django.setup()
import jobs
skip = ("jobs.migrations", "jobs.management")
for module in pkgutil.walk_packages(jobs.__path__, "jobs."):
    if not module.name.startswith(skip):
        importlib.import_module(module.name)
for name in {jobs.__all__!r}:
    value = getattr(importlib.import_module("jobs"), name)
    assert not isinstance(value, type(os)), name
    exec(f"from jobs import {{name}}")
print("all of them")
"""
    assert run_python(code) == "all of them\n"


def test_importing_the_package_needs_no_django_settings() -> None:
    assert run_python("import jobs; print(jobs.HIGH, jobs.job_type.__name__)") == "0 job_type\n"


def test_an_unknown_name_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="module 'jobs' has no attribute 'enqeue'"):
        _ = jobs.enqeue
    with pytest.raises(ImportError):
        exec("from jobs import nothing_of_the_kind")
