"""Fixtures of the whole suite: the test database and `manage.py` as a real process beside the test."""

import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from importlib import reload
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import hypothesis
import pytest
from django.db import connection, connections
from pytest_django import DjangoDbBlocker, Settings

from jobs import capacity, registry, wakeup, watch
from jobs.wakeup import redis_link
from tests.support import beside, flush
from tests.support.databases import MIGRATED, server_key
from tests.support.needs import lacking
from tests.support.processes import ManageProcess, run_python
from tests.support.queue import quick_look
from tests.support.servers import redis_server as redis_servers
from tests.support.servers.postgres_server import PostgresServer
from tests.support.servers.redis_server import RedisServer
from tests.support.videos import shelf

if TYPE_CHECKING:
    from tests.support.remote.remote_site import RemoteSite
    from tests.support.servers.webhooks import Webhook

hypothesis.settings.register_profile("suite", deadline=None)  # a busy machine is no defect
hypothesis.settings.load_profile("suite")

background_key = pytest.StashKey[list[ManageProcess]]()

RunManage = Callable[..., subprocess.CompletedProcess[str]]
StartManage = Callable[..., ManageProcess]
Declare = Callable[..., registry.JobType]


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """The test database of SQLite is there before Django asks; it goes with its folder."""
    return connection.vendor == "sqlite"


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    if connection.vendor == "sqlite":
        shutil.copyfile(os.environ[MIGRATED], connections.databases["default"]["TEST"]["NAME"])


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """pytest-django's, and before any test writes a row: what the rules ask of an empty database, and its tables."""
    with django_db_blocker.unblock():
        quick_look.learn()
        flush.learn()
    with pytest.MonkeyPatch.context() as patch:
        flush.install(patch)
        yield
    beside.close()


@pytest.fixture(autouse=True)
def _invariants_hold(request: pytest.FixtureRequest, _django_db_marker: None) -> Iterator[None]:
    """After every test that uses the database, no rule of the queue is broken."""
    is_concerned = "_django_db_helper" in request.fixturenames or request.node.get_closest_marker("django_db")
    for fixture in ("transactional_db", "db"):
        if fixture in request.fixturenames:
            request.getfixturevalue(fixture)  # first, so that the rows are still there at the end
            break
    if is_concerned:
        flush.shrink()
    yield
    if is_concerned:
        assert quick_look.broken_at_a_glance() == []


@pytest.fixture(autouse=True)
def _process_starts_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process remembers of its own doings is not carried from test to test."""
    capacity.forget_count()
    monkeypatch.setattr(watch, "reconcile_beside", lambda: None)  # a thread that would outlive the test
    wakeup._last_sent.clear()
    redis_link.forget()


@pytest.fixture(autouse=True)
def _shelf() -> Iterator[None]:
    """Chunks, sounds, pictures and looks at sources come from the shelf; the tests of encoding turn that off."""
    with shelf.installed():
        yield


@pytest.fixture
def declare() -> Iterator[Declare]:
    """`declare("here.limited", concurrency=3)` registers a job type of this process until the test ends."""
    before = dict(registry._types)

    def declare(
        name: str, handler: Callable[..., object] = lambda job, **payload: None, **policy: Any
    ) -> registry.JobType:
        registry.job_type(name, **policy)(handler)
        return registry.get(name)

    yield declare
    registry._types.clear()
    registry._types.update(before)


@pytest.fixture(scope="session")
def database_url_of_test_database(django_db_setup: None) -> str:
    """The DATABASE_URL with which another process reaches the test database."""
    name = quote(str(connection.settings_dict["NAME"]))
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()


@pytest.fixture
def manage_environment(database_url_of_test_database: str) -> dict[str, str]:
    """The environment of a `manage.py` process that works on the test database."""
    return {
        **os.environ,
        "DATABASE_URL": database_url_of_test_database,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "PYTHONUNBUFFERED": "1",
    }


@pytest.fixture
def starts_python() -> bool:
    """True: `run_manage` and `start_manage` start a new Python. False: they fork a loaded process, which is quicker.
    A module that tests the start overrides this fixture."""
    return False


@pytest.fixture
def run_manage(manage_environment: dict[str, str], transactional_db: None, starts_python: bool) -> RunManage:
    """`run_manage("jobs", "status")` runs a command to its end; its output is in `.stdout` and `.stderr`."""

    def run(
        *arguments: str, check: bool = True, timeout: float = 120, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = manage_environment | (env or {})
        done = run_python(("manage.py",), arguments, environment, timeout=timeout, interpreter=starts_python)
        if check and done.returncode:
            command = " ".join(arguments)
            pytest.fail(f"manage.py {command} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    return run


@pytest.fixture
def start_manage(
    manage_environment: dict[str, str],
    transactional_db: None,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    starts_python: bool,
) -> Iterator[StartManage]:
    """`start_manage("runworker")` starts a command beside the test; it is killed when the test ends."""
    started: list[ManageProcess] = []
    request.node.stash[background_key] = started

    def start(*arguments: str, env: dict[str, str] | None = None, **more: Any) -> ManageProcess:
        process = ManageProcess(
            *arguments,
            env=manage_environment | (env or {}),
            output=tmp_path / f"manage-{len(started)}-{arguments[0]}.log",
            interpreter=starts_python,
            **more,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill_group()


@pytest.fixture
def remote_site(start_manage: StartManage, tmp_path: Path) -> Iterator["RemoteSite"]:
    """A site whose types of tests/remoteapp run on remote workers. `remote_site.serve()` starts its web server."""
    from tests.remoteapp import job_types
    from tests.support.remote.remote_site import RemoteSite

    before = dict(registry._types)
    reload(job_types)
    site = RemoteSite(start_manage, tmp_path)
    yield site
    site.wire.close()
    registry._types.clear()
    registry._types.update(before)


@pytest.fixture
def webhook() -> Iterator["Webhook"]:
    """A server that takes alerts and writes them down."""
    from tests.support.servers.webhooks import serving

    with serving() as webhook:
        yield webhook


@pytest.fixture
def log(tmp_path: Path) -> str:
    """The file in which the handlers of tests/jobapp write down what they do."""
    return str(tmp_path / "notes")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """`gate.touch()` lets the handlers go on that wait for it."""
    return tmp_path / "gate"


@pytest.fixture
def videos_root(settings: Settings, tmp_path: Path) -> Path:
    """VIDEOS["ROOT"] of this test; many short chunks, quickly encoded."""
    root = tmp_path / "videos"
    settings.VIDEOS = {
        "ROOT": str(root),
        "SEGMENT_SECONDS": 1,
        "SEGMENTS_PER_CHUNK": 2,
        "PRESET": "ultrafast",
        "TRANSCRIBER": "off",
    }
    return root


@pytest.fixture
def postgres_server(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[PostgresServer]:
    """The PostgreSQL server itself, to restart it under a test; skipped where it is not ours to restart."""
    server = request.config.stash.get(server_key, None)
    if server is None:
        pytest.skip("needs a PostgreSQL server of our own")
    yield server
    if not server.is_running():
        server.start()
    connections.close_all()


@pytest.fixture(scope="session")
def one_redis_server() -> Iterator[RedisServer]:
    programs = redis_servers.programs()
    if not programs:
        lacking("REDIS", redis_servers.MISSING)
    server = RedisServer(programs[0])
    yield server
    server.close()


@pytest.fixture
def redis_server(one_redis_server: RedisServer) -> Iterator[RedisServer]:
    """A Redis of our own, running and empty, to do with as a test likes."""
    one_redis_server.make_healthy()
    yield one_redis_server
    one_redis_server.make_healthy()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the background processes of a failed test printed."""
    report = yield
    if report.failed:
        for process in item.stash.get(background_key, []):
            report.sections.append((f"output of {process.title}", process.read_output()))
    return report
