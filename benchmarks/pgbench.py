"""PostgreSQL without a queue on top: pgbench with the least SQL that claims, completes and inserts."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

from psycopg import sql

from benchmarks.servers import Postgres, ServerMissing

DATABASE = "pgbench"
BATCH = 50

_SCHEMA = """
DROP TABLE IF EXISTS job;
CREATE TABLE job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type text NOT NULL,
    payload jsonb NOT NULL,
    status text NOT NULL DEFAULT 'pending',
    priority smallint NOT NULL DEFAULT 5,
    created_at timestamptz NOT NULL DEFAULT now(),
    claimed_at timestamptz,
    completed_at timestamptz
);
CREATE INDEX job_pending ON job (priority, id) WHERE status = 'pending';
"""
_FILL = """INSERT INTO job (type, payload) SELECT 'noop', '{{"index": 1}}' FROM generate_series(1, {rows})"""
_INSERT = """INSERT INTO job (type, payload) VALUES ('noop', '{"index": 1}');"""
_CLAIM_AND_COMPLETE = f"""
WITH chosen AS (
    SELECT id FROM job WHERE status = 'pending' ORDER BY priority, id LIMIT {BATCH} FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE job SET status = 'processing', claimed_at = now() FROM chosen WHERE job.id = chosen.id
    RETURNING job.id
)
SELECT array_agg(id) AS ids FROM claimed \\gset
UPDATE job SET status = 'completed', completed_at = now() WHERE id = ANY (:ids::bigint[]);
"""


@dataclass(frozen=True)
class Pgbench:
    server: Postgres

    def prepare(self) -> None:
        self.server.create_database(DATABASE)

    def inserts(self, count: int) -> float:
        """Rows per second of one client that inserts one row per commit."""
        self.server.execute(_SCHEMA, database=DATABASE)
        self.server.settle(DATABASE)
        return self._run(_INSERT, clients=1, transactions=count)

    def claims(self, jobs: int, clients: int) -> float:
        """Jobs per second, claimed 50 at a time and completed 50 at a time, two commits for each 50."""
        self.server.execute(_SCHEMA, database=DATABASE)
        self.server.execute(sql.SQL(_FILL).format(rows=jobs), database=DATABASE)
        self.server.settle(DATABASE)
        rate = self._run(_CLAIM_AND_COMPLETE, clients=clients, transactions=jobs // BATCH // clients)
        left = int(
            self.server.value("SELECT count(*) FROM job WHERE status <> 'completed'", database=DATABASE)
        )
        if left >= BATCH * clients:
            raise RuntimeError(f"pgbench left {left} of {jobs} jobs")
        return rate * BATCH

    def _run(self, script: str, *, clients: int, transactions: int) -> float:
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
            file.write(script)
            file.flush()
            output = subprocess.run(
                [
                    self._program(),
                    *("--no-vacuum", "--protocol=prepared", "--username=postgres"),
                    f"--host={self.server.folder}",
                    *(f"--client={clients}", f"--jobs={clients}", f"--transactions={transactions}"),
                    f"--file={file.name}",
                    DATABASE,
                ],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        found = re.search(r"^tps = ([\d.]+) \(without", output, re.MULTILINE)
        if found is None:
            raise RuntimeError(f"pgbench said:\n{output}")
        return float(found[1])

    def _program(self) -> str:
        found = shutil.which("pgbench", path=self.server.binaries) or shutil.which("pgbench")
        if found is None:
            raise ServerMissing("pgbench not found: apt-get install postgresql-contrib")
        return found
