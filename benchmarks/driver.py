"""Drives a subject in its own interpreter: one line of JSON per call, both ways.

The harness holds a `Driver`; at the other end of its pipes `python -m benchmarks.driver MODULE` holds the
module's `subject()`. Times are taken over there, around the call itself, so the pipe is never measured.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.subject import Options, Subject

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Sent:
    """One job enqueued for a pick-up measurement: when the call began and when it returned."""

    index: int
    called: float
    returned: float


class Driver:
    """A subject, from the side of the harness. A context manager: its process ends with it."""

    def __init__(self, python: Path, module: str, environment: Mapping[str, str], log: Path) -> None:
        self.python = python
        self.module = module
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [str(python), "-m", "benchmarks.driver", module],
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=10)

    def prepare(self) -> None:
        self._call("prepare")

    def enqueue(self, index: int) -> None:
        self.enqueue_each(range(index, index + 1))

    def enqueue_many(self, indexes: range) -> float:
        """Enqueue the backlog; return the seconds the call took."""
        return float(self._call("enqueue_many", indexes.start, indexes.stop))

    def enqueue_each(self, indexes: range) -> float:
        """Enqueue one by one; return the seconds all of them took."""
        return float(self._call("enqueue_each", indexes.start, indexes.stop))

    def enqueue_spaced(self, indexes: range, pauses: Sequence[float]) -> list[Sent]:
        """Enqueue one by one, each after its pause."""
        sent = self._call("enqueue_spaced", indexes.start, indexes.stop, list(pauses))
        return [Sent(index, called, returned) for index, called, returned in sent]

    def unfinished(self) -> int:
        return int(self._call("unfinished"))

    def workers(self, options: Options) -> list[list[str]]:
        commands: list[list[str]] = self._call("workers", options)
        return commands

    def extra(self, name: str, *arguments: object) -> Any:
        """Call a method that only this subject has."""
        return self._call("extra", name, list(arguments))

    def _call(self, name: str, *arguments: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise RuntimeError(f"{self.module}: {name} failed:\n{tail(self._log)}")
        return json.loads(answer)


def tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


class _Inside:
    """The subject's side: each public method answers the call of its name."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def prepare(self) -> None:
        self.subject.prepare()

    def enqueue_many(self, start: int, stop: int) -> float:
        indexes = list(range(start, stop))
        begin = time.perf_counter()
        self.subject.enqueue_many(indexes)
        return time.perf_counter() - begin

    def enqueue_each(self, start: int, stop: int) -> float:
        begin = time.perf_counter()
        for index in range(start, stop):
            self.subject.enqueue(index)
        return time.perf_counter() - begin

    def enqueue_spaced(self, start: int, stop: int, pauses: list[float]) -> list[tuple[int, float, float]]:
        sent = []
        for index, pause in zip(range(start, stop), pauses, strict=True):
            time.sleep(pause)
            called = time.monotonic()
            self.subject.enqueue(index)
            sent.append((index, called, time.monotonic()))
        return sent

    def unfinished(self) -> int:
        return self.subject.unfinished()

    def workers(self, options: Options) -> list[list[str]]:
        return self.subject.workers(options)

    def extra(self, name: str, arguments: list[object]) -> object:
        return getattr(self.subject, name)(*arguments)


def main(module: str) -> None:
    # What a library prints must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    inside = _Inside(importlib.import_module(module).subject())
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        answers.write(json.dumps(getattr(inside, name)(*arguments)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
