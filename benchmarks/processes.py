"""Worker processes: started in a session of their own, watched through /proc, stopped whole."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchmarks.driver import ROOT, tail

_TICKS = os.sysconf("SC_CLK_TCK")


class Workers:
    """A set of worker processes with their children. A context manager: none outlives it."""

    def __init__(
        self,
        commands: Sequence[Sequence[str]],
        *,
        python: Path,
        environment: Mapping[str, str],
        log: Path,
    ) -> None:
        self._log = log
        with log.open("ab") as output:
            self._processes = [
                subprocess.Popen(
                    _resolve(command, python),
                    cwd=ROOT,
                    env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
                for command in commands
            ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def check_alive(self) -> None:
        for process in self._processes:
            if process.poll() is not None:
                raise RuntimeError(f"a worker ended by itself ({process.returncode}):\n{tail(self._log)}")

    def stop(self, patience: float = 5) -> None:
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + patience
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """SIGKILL to every process of every session, at once."""
        self._signal(signal.SIGKILL)
        for process in self._processes:
            process.wait()

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def footprint(self) -> Footprint:
        """What the processes and all their children hold and have used so far."""
        sessions = {process.pid for process in self._processes}
        members = [stat for stat in map(_read_stat, _all_pids()) if stat and stat.session in sessions]
        return Footprint(
            processes=len(members),
            resident_bytes=sum(stat.resident_bytes for stat in members),
            cpu_seconds=sum(stat.cpu_seconds for stat in members),
        )


@dataclass(frozen=True, slots=True)
class Footprint:
    processes: int
    resident_bytes: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class _Stat:
    session: int
    resident_bytes: int
    cpu_seconds: float


def _resolve(command: Sequence[str], python: Path) -> list[str]:
    program, *arguments = command
    return [str(python) if program == "python" else program, *arguments]


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read_stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it ended meanwhile
        return None
    fields = text.rpartition(")")[2].split()  # from field 3 of proc(5) on; the name may hold spaces
    return _Stat(
        session=int(fields[3]),
        resident_bytes=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
        cpu_seconds=(int(fields[11]) + int(fields[12])) / _TICKS,
    )
