"""PgQueuer on PostgreSQL: asyncpg and uvloop (its fastest pair), all tables logged.

Run as a program it is the worker: `pgqueuer.run` does what the command `pgq run` does, which fails to start
with the typer of this environment.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg
import pgqueuer
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks import ledger
from benchmarks.subject import Options, Subject, database_url


@asynccontextmanager
async def worker() -> AsyncIterator[PgQueuer]:
    connection = await asyncpg.connect(database_url())
    try:
        manager = PgQueuer(AsyncpgDriver(connection))

        @manager.entrypoint("noop")
        async def noop(job: Job) -> None:
            assert job.payload is not None
            ledger.record(int(job.payload))

        yield manager
    finally:
        await connection.close()


class PgQueuerSubject:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._connection = self._loop.run_until_complete(asyncpg.connect(database_url()))
        self._queries = Queries(AsyncpgDriver(self._connection))

    def prepare(self) -> None:
        self._loop.run_until_complete(self._prepare())

    async def _prepare(self) -> None:
        if not await self._queries.schema_is_installed():
            await self._queries.install()  # durability: `durable`, the default
        await self._connection.execute("TRUNCATE pgqueuer, pgqueuer_log, pgqueuer_statistics")

    def enqueue(self, index: int) -> None:
        self._loop.run_until_complete(self._queries.enqueue("noop", b"%d" % index))

    def enqueue_many(self, indexes: Sequence[int]) -> None:
        count = len(indexes)
        payloads: list[bytes | None] = [b"%d" % index for index in indexes]
        self._loop.run_until_complete(self._queries.enqueue(["noop"] * count, payloads, [0] * count))

    def unfinished(self) -> int:
        # A finished job leaves this table for the log.
        count = self._loop.run_until_complete(self._connection.fetchval("SELECT count(*) FROM pgqueuer"))
        return int(count)

    def workers(self, options: Options) -> list[list[str]]:
        batch = [str(options["batch"])] if "batch" in options else []
        return [["python", "-m", __name__, *batch]] * int(options.get("processes", 1))


def subject() -> Subject:
    return PgQueuerSubject()


if __name__ == "__main__":
    batch_size = {"batch_size": int(sys.argv[1])} if len(sys.argv) > 1 else {}
    uvloop.run(pgqueuer.run(worker, **batch_size))
