"""Sprocket as a subject, through its public face and `manage.py runworker`."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence

import django
import httpx

SETTINGS = "benchmarks.sprocket_site.settings"
os.environ.setdefault("DJANGO_SETTINGS_MODULE", SETTINGS)
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from benchmarks.subject import Options  # noqa: E402
from benchmarks.web import WebServer  # noqa: E402
from jobs import enqueue, enqueue_many, fleet, remote  # noqa: E402
from jobs.lifecycle import claim  # noqa: E402
from jobs.models import Job, Worker  # noqa: E402
from jobs.remote import Announcement  # noqa: E402

_FILL_CHUNK = 10_000
_TOMORROW = 86_400.0


class Sprocket:
    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._server: WebServer | None = None
        self._numbers = itertools.count()

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
        if "server" in options:  # nobody works: the measure claims by itself
            self._server = WebServer(SETTINGS)
            return [self._server.command()]
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

    def server_answers(self) -> bool:
        return self._server is not None and self._server.answers()

    def time_far_claims(self, claims: int, batch: int) -> float:
        """The same over HTTP, over one connection, by a worker that has places for all of them."""
        assert self._server is not None
        announcement = Announcement(types=["bench.noop"], concurrency=claims * batch)
        _, _, key = remote.register(f"far-{next(self._numbers)}", announcement)
        claimed = 0
        with httpx.Client(base_url=self._server.api, headers={"Authorization": f"Bearer {key}"}) as client:
            client.post("/worker/heartbeat", json={"status": "starting"}).raise_for_status()
            begin = time.perf_counter()
            for _ in range(claims):
                numbered = {"Idempotency-Key": f"claim-{next(self._numbers):08}"}
                answer = client.post("/worker/claim", json={"slots": batch}, headers=numbered)
                claimed += len(answer.raise_for_status().json()["jobs"])
            taken = time.perf_counter() - begin
        if claimed != claims * batch:
            raise RuntimeError(f"claimed {claimed} jobs instead of {claims * batch}")
        return taken


def subject() -> Sprocket:
    return Sprocket()
