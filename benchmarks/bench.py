"""The bench: servers, ledger and interpreters, from which each measure takes what it needs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks import environment
from benchmarks.contender import Contender
from benchmarks.driver import Driver
from benchmarks.effort import Effort
from benchmarks.ledger import Ledger
from benchmarks.processes import Workers
from benchmarks.servers import Postgres, ServerMissing


class Bench:
    def __init__(self, *, folder: Path, postgres: Postgres, redis_url: str | None, effort: Effort) -> None:
        self.postgres = postgres
        self.effort = effort
        self.folder = folder
        self.ledger = Ledger(folder / "ledger")
        self._redis_url = redis_url
        self._databases: dict[str, str] = {}

    def driver(self, contender: Contender) -> Driver:
        """The contender's subject, ready for calls."""
        return Driver(
            self._python(contender), contender.module, self._environment(contender), self._log(contender)
        )

    def workers(
        self, contender: Contender, driver: Driver, *, environment: Mapping[str, str] | None = None
    ) -> Workers:
        """Start the contender's workers, with additions to their environment."""
        return Workers(
            driver.workers(contender.options),
            python=self._python(contender),
            environment={**self._environment(contender), **(environment or {})},
            log=self._log(contender),
        )

    def settle(self, contender: Contender) -> None:
        if contender.store == "postgresql":
            self.postgres.settle(contender.key)

    def say(self, text: str) -> None:
        print(f"  {text}", file=sys.stderr, flush=True)

    def _python(self, contender: Contender) -> Path:
        is_peer = contender.module.startswith("benchmarks.peers.")
        return environment.PYTHON if is_peer else Path(sys.executable)

    def _environment(self, contender: Contender) -> dict[str, str]:
        common = {
            "BENCH_LEDGER": str(self.ledger.path),
            "BENCH_FOLDER": str(self.folder),
            "BENCH_SEGMENTS_PER_CHUNK": str(self.effort.video.segments_per_chunk),
        }
        match contender.store:
            case "sqlite":
                return {**common, "BENCH_SQLITE_PATH": str(self.folder / f"{contender.key}.sqlite3")}
            case "redis":
                if self._redis_url is None:
                    raise ServerMissing("no redis-server on this machine")
                return {**common, "BENCH_REDIS_URL": self._redis_url}
            case "postgresql":
                waking = self._waking(contender)
                return {**common, **waking, "BENCH_DATABASE_URL": self._database(contender.key)}

    def _waking(self, contender: Contender) -> dict[str, str]:
        """What wakes Sprocket's workers, if its options say so."""
        match contender.options:
            case {"mode": "database"}:
                return {"BENCH_QUEUE_MODE": "database"}
            case {"mode": mode, "redis": "away"}:
                return {"BENCH_QUEUE_MODE": str(mode), "BENCH_REDIS_URL": f"unix://{self.folder}/nobody"}
            case {"mode": mode}:
                if self._redis_url is None:
                    raise ServerMissing("no redis-server on this machine")
                return {"BENCH_QUEUE_MODE": str(mode), "BENCH_REDIS_URL": self._redis_url}
        return {}

    def _database(self, name: str) -> str:
        if name not in self._databases:
            self._databases[name] = self.postgres.create_database(name)
        return self._databases[name]

    def _log(self, contender: Contender) -> Path:
        return self.folder / f"{contender.key}.log"
