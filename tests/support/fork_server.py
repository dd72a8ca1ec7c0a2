"""Starts `manage.py …` for the tests in milliseconds: a process that has loaded Django and the apps, and forks.

The tests start a thousand commands, and half a second of CPU for the imports of each was half of the suite. `start()`
gives a process as `subprocess.Popen` does, with its own pid, environment, output and exit code. The fork reads the
settings again in its own environment. Where a start itself is the subject of a test (exit codes of `manage.py`, what is
imported when), the test starts an interpreter: `can_start()` says no for an environment that changes what is imported.

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
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tests.support import ROOT

MANAGE, CONSOLE = "manage.py", "sprocket-worker"
SETTINGS = ("tests.settings", "tests.remoteapp.settings")
MAY_DIFFER = {
    "ALLOWED_HOSTS", "DATABASE_POOL", "DATABASE_URL", "DEBUG", "DJANGO_SETTINGS_MODULE", "MEDIA_ROOT",
    "PGAPPNAME", "PYTHONUNBUFFERED", "PYTEST_CURRENT_TEST", "REDIS_URL", "SPROCKET_ADMIN_SECRET", "SPROCKET_APPS",
    "SPROCKET_KEY", "TASK_SIGNALS_LOG", "TESTS_DIE_WHILE_FIRING", "TESTS_FAKE_GPU", "TESTS_PERIODIC", "TESTS_SHELF",
    "TESTS_STAGING",
}  # fmt: skip
"""Variables that the settings read, or that are read when a command runs: never during an import, but for those that
tests/jobapp heeds again in a fork."""
PREFIXES = ("JOBS_", "VIDEOS_", "LOG_")
FOLDER = "TESTS_FORK_SERVERS"
"""The variable that says where the sockets of a run's servers are."""
SPARE_FD = 3


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
                self.returncode = int(self._connection.recv(64) or b"-1")
                self._connection.close()  # until now its pid could not be given to another process
            return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Server:
    """One for each (program, settings module), shared by the test processes of a run (FOLDER)."""

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
            self._process = subprocess.Popen(
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
    folder = tempfile.TemporaryDirectory(prefix="sprocket-forks-")
    os.environ[FOLDER] = folder.name

    def clean_up() -> None:
        del os.environ[FOLDER]
        folder.cleanup()

    return clean_up


_servers: dict[tuple[str, str], _Server] = {}


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
        _servers[key] = _Server(*key)
    return _servers[key].start(arguments, environment, stdout=stdout, stderr=stderr)


# -- the server ------------------------------------------------------------------------------------------------------


def serve(listening: socket.socket) -> tuple[list[str], dict[str, str]]:
    """Fork for each order. Returns in the forks, with what they are to do; the server itself ends here, with the last
    test process."""
    selector = selectors.DefaultSelector()
    selector.register(listening, selectors.EVENT_READ, None)
    controls: set[socket.socket] = set()
    children: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for key, _ in selector.select():
            if key.data is None:
                control = listening.accept()[0]
                controls.add(control)
                selector.register(control, selectors.EVENT_READ, control)
            elif isinstance(key.data, socket.socket):
                control = key.data
                order, fds, _, _ = socket.recv_fds(control, 1 << 20, SPARE_FD)
                if not order:
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
                watcher = os.pidfd_open(pid)
                children[pid] = (watcher, connection)
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


def read_settings_again() -> None:
    """In the fork: what the zygote knows of settings is forgotten; Django reads them at the next use."""
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
    if environment.get("TESTS_SHELF") == "1":
        from tests.support.videos import shelf

        shelf.install()
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
