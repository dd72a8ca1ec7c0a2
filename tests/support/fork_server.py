"""Starts `manage.py …` for the tests in milliseconds: a process that has loaded Django and the apps, and forks.

Importing Django and the apps costs half a second of CPU for each command, and the tests start hundreds. `start()` gives
a process as `subprocess.Popen` does, with its own pid, environment, output and exit code. The fork reads the settings
again in its own environment. Tests of the start itself (exit codes of `manage.py`, what is imported when) start a new
Python instead: `can_start()` says no for an environment that changes what is imported.

Run as a program, this file is the server: `python -u -m tests.support.fork_server <fd of its socket> <program>`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tests.support import ROOT
from tests.support.servers.places import GuardedFolder

MANAGE, CONSOLE = "manage.py", "sprocket-worker"
SETTINGS = ("tests.settings", "tests.remoteapp.settings")
MAY_DIFFER = {
    "ALLOWED_HOSTS", "DATABASE_POOL", "DATABASE_URL", "DEBUG", "DJANGO_SETTINGS_MODULE", "MEDIA_ROOT",
    "PGAPPNAME", "PYTHONUNBUFFERED", "PYTEST_CURRENT_TEST", "REDIS_URL", "SPROCKET_ADMIN_SECRET", "SPROCKET_APPS",
    "SPROCKET_KEY", "TASK_SIGNALS_LOG", "TESTS_DIE_WHILE_FIRING", "TESTS_FAKE_GPU", "TESTS_PERIODIC", "TESTS_STAGING",
}  # fmt: skip
"""Variables that the settings read, or that are read when a command runs: never during an import, but for those that
tests/jobapp heeds again in a fork."""
PREFIXES = ("JOBS_", "VIDEOS_", "LOG_")
FOLDER = "TESTS_FORK_SERVERS"
"""The variable that says where the sockets of a run's servers are."""
FDS_PER_ORDER = 3
"""The connection of the new process, its stdout and its stderr."""


# -- in the tests ----------------------------------------------------------------------------------------------------


class ForkedProcess:
    """What tests use of `subprocess.Popen`, for a process whose parent is the fork server."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._connection = connection
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(timeout=0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        with self._lock:
            if self.returncode is None:
                ready, _, _ = select.select([self._connection], [], [], timeout)
                if not ready:
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
                said = self._connection.recv(64)
                assert said, f"the fork server ended before process {self.pid}"
                self.returncode = int(said)
                self._connection.close()  # until now its pid could not be given to another process
            return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _ServerConnection:
    """This process's connection to the fork server of a program and settings module, which the test processes of a run
    share (FOLDER). Starts the server if none is running."""

    def __init__(self, program: str, settings: str) -> None:
        self._program, self._settings = program, settings
        self._lock = threading.Lock()
        self._control = self._connect()
        atexit.register(self.close)

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], *, stdout: int, stderr: int
    ) -> ForkedProcess:
        order = json.dumps([list(arguments), dict(environment)]).encode()
        with self._lock:
            started = self._order(order, stdout, stderr)
            if started is None:  # it ended with the one test process that knew it, just before we came
                self._control = self._connect()
                started = self._order(order, stdout, stderr)
        assert started is not None, "the fork server has ended"
        return started

    def _order(self, order: bytes, stdout: int, stderr: int) -> ForkedProcess | None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.suppress(OSError):
            socket.send_fds(self._control, [order], [theirs.fileno(), stdout, stderr])
        answer = ours.recv(64)
        return ForkedProcess(int(answer), ours) if answer else None

    def close(self) -> None:
        self._control.close()

    def _connect(self) -> socket.socket:
        folder = Path(os.environ[FOLDER])
        address = str(folder / f"{self._program}-{self._settings}")
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                control.connect(address)
            except OSError:
                self._spawn(address)
                control.connect(address)
        return control

    def _spawn(self, address: str) -> None:
        Path(address).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(address)
            listening.listen()
            subprocess.Popen(
                [sys.executable, "-u", "-m", __name__, str(listening.fileno()), self._program],
                cwd=ROOT,
                env={**os.environ, "DJANGO_SETTINGS_MODULE": self._settings},
                pass_fds=[listening.fileno()],
                stdin=subprocess.DEVNULL,
                process_group=0,
            )


def prepare() -> Callable[[], None]:
    """Called first in the first process of a run; what it returns is called last."""
    if FOLDER in os.environ:
        return lambda: None
    folder = GuardedFolder("sprocket-forks-")
    os.environ[FOLDER] = str(folder.path)

    def clean_up() -> None:
        del os.environ[FOLDER]
        folder.close()

    return clean_up


_servers: dict[tuple[str, str], _ServerConnection] = {}


def can_start(program: str, environment: Mapping[str, str]) -> bool:
    """Whether this environment differs from ours only in what the settings read."""
    changed = {name for name, value in environment.items() if os.environ.get(name) != value}
    changed |= os.environ.keys() - environment.keys()
    strange = [name for name in changed - MAY_DIFFER if not name.startswith(PREFIXES)]
    settings_known = program == CONSOLE or environment.get("DJANGO_SETTINGS_MODULE") in SETTINGS
    return sys.platform == "linux" and not strange and settings_known


def start(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdout: int,
    stderr: int,
) -> ForkedProcess:
    """Run `program arguments…` in a fork, in a process group of its own and with no input."""
    key = (program, environment["DJANGO_SETTINGS_MODULE"])
    if key not in _servers:
        _servers[key] = _ServerConnection(*key)
    return _servers[key].start(arguments, environment, stdout=stdout, stderr=stderr)


# -- the server ------------------------------------------------------------------------------------------------------


def serve(listening: socket.socket) -> tuple[list[str], dict[str, str]]:
    """Fork for each order. Returns in the forks, with what they are to do. The server itself ends here, with the last
    test process; what a test process has started and left behind is killed when that process ends."""
    selector = selectors.DefaultSelector()
    selector.register(listening, selectors.EVENT_READ, None)
    controls: set[socket.socket] = set()
    children: dict[int, tuple[int, socket.socket]] = {}
    started_by: dict[int, socket.socket] = {}
    while True:
        for key, _ in selector.select():
            if key.data is None:
                control = listening.accept()[0]
                controls.add(control)
                selector.register(control, selectors.EVENT_READ, control)
            elif isinstance(key.data, socket.socket):
                control = key.data
                order, fds, _, _ = socket.recv_fds(control, 1 << 20, FDS_PER_ORDER)
                if not order:
                    for pid in [pid for pid, by in started_by.items() if by is control]:
                        with contextlib.suppress(ProcessLookupError):
                            os.killpg(pid, signal.SIGKILL)
                    selector.unregister(control)
                    control.close()
                    controls.remove(control)
                    if not controls:
                        os._exit(0)
                    continue
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    listening.close()
                    for other in controls:
                        other.close()
                    for _, open_connection in children.values():
                        open_connection.close()
                    return _become_the_command(order, fds)
                connection = socket.socket(fileno=fds[0])
                os.close(fds[1])
                os.close(fds[2])
                with contextlib.suppress(
                    PermissionError, ProcessLookupError
                ):  # the child has done so, and gone on
                    os.setpgid(pid, pid)
                watcher = os.pidfd_open(pid)
                children[pid] = (watcher, connection)
                started_by[pid] = control
                selector.register(watcher, selectors.EVENT_READ, pid)
                with contextlib.suppress(OSError):
                    connection.send(str(pid).encode())
            elif isinstance(key.data, int):
                # It has ended. It stays a zombie until the test has read the exit code, as a child of the test would.
                selector.unregister(key.fd)
                ended = os.waitid(os.P_PID, key.data, os.WEXITED | os.WNOWAIT)
                assert ended is not None
                code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                watcher, connection = children[key.data]
                os.close(watcher)
                with contextlib.suppress(OSError):
                    connection.send(str(code).encode())
                selector.register(connection, selectors.EVENT_READ, (key.data,))
            else:
                selector.unregister(key.fileobj)
                os.waitpid(key.data[0], 0)
                children.pop(key.data[0])[1].close()
                del started_by[key.data[0]]


def _become_the_command(order: bytes, fds: list[int]) -> tuple[list[str], dict[str, str]]:
    os.setpgid(0, 0)
    connection, stdout, stderr = fds
    os.close(connection)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for fd in {stdout, stderr}:
        os.close(fd)
    arguments, environment = json.loads(order)
    return arguments, environment


def load(program: str) -> None:
    """Import all that a command would, and connect to nothing."""
    if program == CONSOLE:
        return
    import django

    django.setup()
    import django.contrib.staticfiles.management.commands.runserver
    import django.core.management.commands.migrate
    import django.core.servers.basehttp

    import project.urls  # noqa: F401
    from videos.media import ffmpeg

    with contextlib.suppress(Exception):  # there may be none
        found = ffmpeg.binary()
        ffmpeg.encoders_of(found, ffmpeg.build_id(found))


def assert_nothing_read() -> None:
    """The forks have environments of their own: no import may have read our settings."""
    for name in ("jobs.conf", "videos.conf"):
        if name in sys.modules:
            assert sys.modules[name]._reader._cached is None, (
                f"something has read {name} while it was imported"
            )


def read_settings_again() -> None:
    """In the fork: what the server has read of the settings is forgotten; Django reads them at the next use."""
    from django.conf import settings
    from django.db import connections
    from django.utils.functional import empty

    for name in [
        name for name in sys.modules if name.endswith(".settings") and not name.startswith("django")
    ]:
        del sys.modules[name]
    for alias in list(connections):
        with contextlib.suppress(AttributeError):
            del connections[alias]
    settings._wrapped = empty
    connections.__dict__.pop("settings", None)
    setattr(connections, "_settings", None)  # noqa: B010 (unknown to the stubs)


def main(fd: int, program: str) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load(program)
    assert_nothing_read()
    assert threading.active_count() == 1, "a fork would lose the other threads"
    gc.collect()
    gc.freeze()
    arguments, environment = serve(socket.socket(fileno=fd))
    gc.unfreeze()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv = [program, *arguments]
    command: Any
    if program == CONSOLE:
        from jobs.worker.console import main as command
    else:
        read_settings_again()
        if "tests.jobapp.job_types" in sys.modules:
            sys.modules["tests.jobapp.job_types"].heed_environment()
        from manage import main as command
    command()
    raise SystemExit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
