"""What tests share: waiting for something to become true, and processes to look at."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[2]

T = TypeVar("T")


def wait_until(condition: Callable[[], T], *, timeout: float = 120, interval: float = 0.05) -> T:
    """Call `condition` until it gives something true, and return that; fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"still {value!r} after {timeout} s: {condition}")
        time.sleep(interval)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ManageProcess(subprocess.Popen[bytes]):
    """A `manage.py` command (or another program of Python's) in the background, in a process group of its own, with its
    output in a file."""

    def __init__(
        self, *arguments: str, env: dict[str, str], output: Path, program: Sequence[str] = ("manage.py",)
    ) -> None:
        self.output = output
        with output.open("wb") as file:
            super().__init__(
                [sys.executable, *program, *arguments],
                env=env,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        self.title = f"{' '.join([*program, *arguments])} (pid {self.pid})"

    def read_output(self) -> str:
        return self.output.read_text(errors="replace")

    def kill_group(self) -> None:
        """Kill the command and every process it left behind."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
