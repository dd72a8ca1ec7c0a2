"""Sprocket as a subject, through its public face and `manage.py runworker`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import django

SETTINGS = "benchmarks.sprocket_site.settings"
os.environ.setdefault("DJANGO_SETTINGS_MODULE", SETTINGS)
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from benchmarks.subject import Options  # noqa: E402
from jobs import enqueue, enqueue_many, fleet  # noqa: E402
from jobs.lifecycle import claim  # noqa: E402
from jobs.models import Job, Worker  # noqa: E402

_FILL_CHUNK = 10_000
_TOMORROW = 86_400.0


class Sprocket:
    def __init__(self) -> None:
        self._worker: Worker | None = None

    def prepare(self) -> None:
        call_command("migrate", verbosity=0)
        tables = [name for name in connection.introspection.table_names() if name.startswith("jobs_")]
        statements = (
            [f"TRUNCATE {', '.join(tables)} CASCADE"]
            if connection.vendor == "postgresql"
            else ["PRAGMA foreign_keys=OFF", *(f"DELETE FROM {name}" for name in tables), "VACUUM"]
        )
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def enqueue(self, index: int) -> None:
        enqueue("bench.noop", index=index)

    def enqueue_many(self, indexes: Sequence[int]) -> None:
        enqueue_many("bench.noop", [{"index": index} for index in indexes])

    def unfinished(self) -> int:
        return int(Job.objects.exclude(status="completed").count())

    def workers(self, options: Options) -> list[list[str]]:
        command = ["python", "-m", "django", "runworker", "--settings", SETTINGS]
        for name in ("processes", "concurrency", "name"):
            if name in options:
                command += [f"--{name}", str(options[name])]
        return [command]

    # What only the measures about Sprocket itself ask for:

    def enqueue_sleeper(self, index: int, seconds: float) -> None:
        enqueue("bench.sleep", index=index, seconds=seconds)

    def fill(self, pending: int, waiting: int) -> None:
        """Rows to claim from, and rows that must not cost a claim anything."""
        for count, delay in ((waiting, _TOMORROW), (pending, 0.0)):
            for start in range(0, count, _FILL_CHUNK):
                stop = min(count, start + _FILL_CHUNK)
                enqueue_many("bench.noop", [{"index": index} for index in range(start, stop)], delay=delay)

    def top_up(self, pending: int) -> None:
        self.fill(pending - int(Job.objects.pending().count()), 0)

    def time_claims(self, claims: int, batch: int) -> float:
        """Seconds for so many claims of so many jobs each."""
        if self._worker is None:
            self._worker = fleet.register(
                name="claimer", job_types=["bench.noop"], capabilities=[], concurrency=batch
            )
        claimed = 0
        begin = time.perf_counter()
        for _ in range(claims):
            claimed += len(claim(self._worker, batch))
        taken = time.perf_counter() - begin
        if claimed != claims * batch:
            raise RuntimeError(f"claimed {claimed} jobs instead of {claims * batch}")
        return taken


def subject() -> Sprocket:
    return Sprocket()
