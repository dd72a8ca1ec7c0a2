"""Procrastinate on PostgreSQL: psycopg, asynchronous handler, its own worker command."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from procrastinate import App, PsycopgConnector

from benchmarks import ledger
from benchmarks.subject import Options, Subject, database_url

app = App(connector=PsycopgConnector(conninfo=database_url()))


@app.task(name="noop")
async def noop(index: int) -> None:
    ledger.record(index)


class Procrastinate:
    def __init__(self) -> None:
        app.open()
        self._books = psycopg.connect(database_url(), autocommit=True)

    def prepare(self) -> None:
        if not app.check_connection():
            app.schema_manager.apply_schema()
        self._books.execute("TRUNCATE procrastinate_jobs, procrastinate_workers CASCADE")

    def enqueue(self, index: int) -> None:
        noop.defer(index=index)

    def enqueue_many(self, indexes: Sequence[int]) -> None:
        noop.batch_defer(*({"index": index} for index in indexes))

    def unfinished(self) -> int:
        row = self._books.execute(
            "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def workers(self, options: Options) -> list[list[str]]:
        command = ["python", "-m", "procrastinate", "--app", f"{__name__}.app", "worker"]
        if "concurrency" in options:
            command += ["--concurrency", str(options["concurrency"])]
        return [command] * int(options.get("processes", 1))


def subject() -> Subject:
    return Procrastinate()
