"""Idle: what a worker with nothing to do costs in memory, CPU and statements."""

from __future__ import annotations

import re
import time

from psycopg import sql

from benchmarks.bench import Bench
from benchmarks.contender import SPROCKET
from benchmarks.findings import Finding, judged

_MEASURE = "idle worker, PostgreSQL"
_LOGGED = re.compile(rb"LOG:  (?:statement|execute [^:]+):")
_MEGABYTE = 1024 * 1024


def idle(bench: Bench) -> list[Finding]:
    seconds = bench.effort.idle_seconds
    database = sql.Identifier(SPROCKET.key)
    with bench.driver(SPROCKET) as driver:
        driver.prepare()
        bench.ledger.clear()
        bench.postgres.execute(sql.SQL("ALTER DATABASE {} SET log_statement = 'all'").format(database))
        try:
            with bench.workers(SPROCKET, driver) as workers:
                driver.enqueue(1)  # it has worked once, so all it needs is loaded
                bench.ledger.wait_for(1)
                time.sleep(bench.effort.idle_settle)
                log_begins = bench.postgres.log.stat().st_size
                before = workers.footprint()
                time.sleep(seconds)
                after = workers.footprint()
                with bench.postgres.log.open("rb") as log:
                    log.seek(log_begins)
                    statements = len(_LOGGED.findall(log.read()))
        finally:
            bench.postgres.execute(sql.SQL("ALTER DATABASE {} RESET log_statement").format(database))
    memory = after.resident_bytes / _MEGABYTE
    cpu = (after.cpu_seconds - before.cpu_seconds) / seconds
    rate = statements / seconds
    processes = f" in {after.processes} processes" if after.processes > 1 else ""
    bench.say(f"idle: {memory:.1f} MB{processes}, {cpu:.2%} CPU, {rate:.2f} statements/s")
    return [
        judged(_MEASURE, "≤ 70 MB resident", f"{memory:.1f} MB{processes}", memory <= 70, megabytes=memory),
        judged(_MEASURE, "< 2% CPU", f"{cpu:.2%}", cpu < 0.02, cpu=cpu),
        judged(_MEASURE, "≤ 2 statements/s", f"{rate:.2f}/s", rate <= 2, statements_per_second=rate),
    ]
