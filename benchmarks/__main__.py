"""`python -m benchmarks`: run the measures, print the table, write the JSON."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import disk, environment, report, servers
from benchmarks.bench import Bench
from benchmarks.effort import FULL, QUICK
from benchmarks.findings import Finding, not_measured
from benchmarks.measures import (
    admin,
    claim_scaling,
    drain,
    enqueue,
    idle,
    live,
    modes,
    pickup,
    recovery,
    remote,
    video,
)

Measure = Callable[[Bench], list[Finding]]

# By group; `--only` takes the names of groups.
MEASURES: dict[str, dict[str, Measure]] = {
    "drain": {
        "drain, 1 process, PostgreSQL": drain.one_process,
        "drain, 1 process, nobody tuned": drain.as_shipped,
        "drain, best configuration": drain.best_configuration,
        "drain, 1 process, SQLite": drain.sqlite,
    },
    "enqueue": {"enqueue_many": enqueue.bulk, "enqueue, one by one": enqueue.single},
    "pickup": {"pick-up, idle worker, PostgreSQL": pickup.pickup},
    "modes": {"pick-up in each mode": modes.pickup, "drain in each mode": modes.drain},
    "claim": {"claim from a huge table": claim_scaling.claim_scaling},
    "admin": {"pages of the admin": admin.admin_pages},
    "live": {"live pages": live.live_pages},
    "recovery": {"kill -9 of a worker": recovery.recovery},
    "idle": {"idle worker": idle.idle},
    "video": {
        "video, beside one ffmpeg": video.speed,
        "video, a short clip": video.short_clip,
        "video, a large file": video.large_file,
    },
    "remote": {
        "remote, claims": remote.claims,
        "remote, the same video": remote.same_video,
        "remote, a cancelled chunk": remote.cancelled,
        "remote, a large source": remote.large_source,
    },
}


def main() -> int:
    options = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers and workers are stopped
    effort = QUICK if options.quick else FULL
    environment.ensure()
    began = time.monotonic()
    circumstances: dict[str, Any] = {
        "effort": effort.name,
        "redis_fsync": options.redis_fsync,
        "machine": report.machine(),
    }
    _warn_of_company()
    findings: list[Finding] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        postgres = stack.enter_context(servers.postgres())
        try:
            redis_url = stack.enter_context(servers.redis(fsync=options.redis_fsync))
        except servers.ServerMissing as error:
            print(f"{error}; what needs Redis is not measured", file=sys.stderr)
            redis_url = None
        circumstances["sync_ms"] = [disk.sync_milliseconds(folder)]
        circumstances["postgresql"] = postgres.value("SHOW server_version")
        bench = Bench(folder=folder, postgres=postgres, redis_url=redis_url, effort=effort)
        for group in options.only or MEASURES:
            for title, measure in MEASURES[group].items():
                print(f"{title} …", file=sys.stderr, flush=True)
                findings += _taken(measure, title, bench, verbose=options.verbose)
        circumstances["sync_ms"].append(disk.sync_milliseconds(folder))
    circumstances["seconds"] = round(time.monotonic() - began)
    path = report.write(findings, circumstances)
    print(f"\n{report.table(findings)}\n")
    print(f"{report.summary(findings)} ({effort.name} run, {circumstances['seconds']} s) → {path.name}")
    before, after = circumstances["sync_ms"]
    print(f"a sync of this disk took {before:.2f} ms at the beginning, {after:.2f} ms at the end")
    return 0


def _warn_of_company() -> None:
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 4:
        print(f"this machine is busy (load {load:.1f} on {cores} cores): expect noise", file=sys.stderr)


def _taken(measure: Measure, title: str, bench: Bench, *, verbose: bool) -> list[Finding]:
    """One measure's findings; if it breaks, that is a finding too, and the others go on."""
    try:
        return measure(bench)
    except Exception as error:
        if verbose:
            traceback.print_exc()
        bench.say(f"not measured: {error}")
        return [not_measured(title, "", error)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a first look in a few minutes")
    parser.add_argument("--only", nargs="+", choices=MEASURES, metavar="GROUP", help=", ".join(MEASURES))
    parser.add_argument(
        "--redis-fsync", action="store_true", help="Redis syncs every write, as PostgreSQL and SQLite do"
    )
    parser.add_argument("--verbose", action="store_true", help="tracebacks of measures that break")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
