"""What tests share: waiting for something to become true, and processes to look at."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tests.support import ROOT, fork_server
from tests.support.fork_server import CONSOLE, MANAGE, ForkedProcess

CONSOLE_SCRIPT = ("-c", "from jobs.worker.console import main; main()")
"""What the command `sprocket-worker` runs."""

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


class ManageProcess:
    """A `manage.py` command (or another program of Python's) in the background, in a process group of its own, with its
    output in a file. `interpreter=True` starts Python itself, where the start is what the test is about."""

    def __init__(
        self,
        *arguments: str,
        env: dict[str, str],
        output: Path,
        program: Sequence[str] = (MANAGE,),
        interpreter: bool = False,
    ) -> None:
        self.output = output
        with output.open("wb") as file:
            self._process = start_python(
                program, arguments, env, stdout=file.fileno(), stderr=file.fileno(), interpreter=interpreter
            )
        self.pid = self._process.pid
        self.poll = self._process.poll
        self.wait = self._process.wait
        self.send_signal = self._process.send_signal
        self.terminate = self._process.terminate
        self.kill = self._process.kill
        self.title = f"{' '.join([*program, *arguments])} (pid {self.pid})"

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def read_output(self) -> str:
        return self.output.read_text(errors="replace")

    def kill_group(self) -> None:
        """Kill the command and every process it left behind."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()


def start_python(
    program: Sequence[str],
    arguments: Sequence[str],
    env: dict[str, str],
    *,
    stdout: int,
    stderr: int,
    interpreter: bool = False,
) -> ForkedProcess | subprocess.Popen[bytes]:
    """Start a program in the project's folder, without input: by a fork of a loaded process where that is the same."""
    known = MANAGE if tuple(program) == (MANAGE,) else CONSOLE if tuple(program) == CONSOLE_SCRIPT else None
    if known and not interpreter and fork_server.can_start(known, env):
        return fork_server.start(known, arguments, env, stdout=stdout, stderr=stderr)
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        env=env,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        process_group=0,
    )


def run_python(
    program: Sequence[str],
    arguments: Sequence[str],
    env: dict[str, str],
    *,
    timeout: float = 120,
    interpreter: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as `subprocess.run` does with captured output."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start_python(
            program, arguments, env, stdout=out.fileno(), stderr=err.fileno(), interpreter=interpreter
        )
        try:
            code = process.wait(timeout=timeout)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(list(arguments), code, out.read().decode(), err.read().decode())


AS_JSON = {"LOG_FORMAT": "json"}
"""For the environment of a process whose log lines a test looks for: each has its code in it."""


def count_logged(process: ManageProcess, code: str) -> int:
    """How many log lines with this code the process has written, in JSON."""
    return process.read_output().count(f'"code": "{code}"')


def has_logged(process: ManageProcess, code: str) -> bool:
    return count_logged(process, code) > 0
