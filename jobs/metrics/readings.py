"""The metrics as they are now: a few statements, none of which reads more of the jobs than a bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from jobs import database, fleet, registry
from jobs.alerts.wording import Kind
from jobs.breakers import declarations, policy
from jobs.metrics import catalogue
from jobs.metrics.depth import read_depth
from jobs.metrics.exposition import Metric, Sample
from jobs.models import AlertKind, Breaker, RunTotal, Worker, WorkerStatus
from jobs.run_totals import BEYOND, OUTCOMES, cumulate

NAMED_WORKERS = 500

Reading = tuple[Metric, list[Sample]]


def read() -> list[Reading]:
    return [
        (catalogue.INFO, [Sample(1, {"version": fleet.current_version()})]),
        *read_depth(),
        *_totals(),
        *_workers(),
        (catalogue.BREAKER, list(_breakers())),
        (catalogue.ALERTS, list(_alerts())),
    ]


def _totals() -> Iterator[Reading]:
    rows = RunTotal.objects.all() if database.has_table(RunTotal) else ()
    # Those that never ran are there with zeros, or nobody would see the first one fail.
    by_type = {kind.name: RunTotal(type=kind.name) for kind in registry.all_types()}
    by_type |= {total.type: total for total in rows}
    totals = [total for _, total in sorted(by_type.items())]
    yield (
        catalogue.JOBS,
        [
            Sample(getattr(total, outcome), {"type": total.type, "outcome": outcome})
            for total in totals
            for outcome in OUTCOMES
        ],
    )
    yield catalogue.FAILURES, [Sample(total.failed + total.lost, {"type": total.type}) for total in totals]
    yield catalogue.RECOVERIES, [Sample(total.lost, {"type": total.type}) for total in totals]
    yield catalogue.EXHAUSTED, [Sample(total.exhausted, {"type": total.type}) for total in totals]
    yield (
        catalogue.WAIT,
        [part for total in totals for part in _histogram(total.type, total.waited, total.waited_seconds)],
    )
    yield (
        catalogue.RUN,
        [part for total in totals for part in _histogram(total.type, total.ran, total.ran_seconds)],
    )


def _histogram(type_name: str, buckets: Mapping[str, int], seconds: float) -> Iterator[Sample]:
    if not buckets:
        return
    counts = cumulate(buckets)
    for end, count in counts:
        yield Sample(count, {"type": type_name, "le": end}, "bucket")
    yield Sample(seconds, {"type": type_name}, "sum")
    yield Sample(dict(counts)[BEYOND], {"type": type_name}, "count")


def _workers() -> Iterator[Reading]:
    workers = Worker.objects.judged().filter(stopped_at__isnull=True)
    counts = Counter(worker.state for worker in workers)
    statuses: Iterable[str] = [*WorkerStatus.values, "disabled", "revoked"]
    yield catalogue.WORKERS, [Sample(counts[status], {"status": status}) for status in statuses]
    heard = "coalesce(last_heartbeat, registered_at)"
    age = (
        f"EXTRACT(EPOCH FROM statement_timestamp() - {heard})::float8"
        if database.is_postgres()
        else f"(julianday('now') - julianday({heard})) * 86400.0"
    )
    rows = database.fetch(
        f"SELECT name, {age} FROM jobs_worker"
        f" WHERE stopped_at IS NULL AND kind <> 'site' ORDER BY {heard} DESC LIMIT {NAMED_WORKERS}"
    )
    yield catalogue.HEARTBEAT_AGE, [Sample(max(0.0, seconds), {"worker": name}) for name, seconds in rows]


def _breakers() -> Iterator[Sample]:
    """Those that have ever failed, and those that this process knows from its code."""
    rows = Breaker.objects.all() if database.has_table(Breaker) else ()
    now = database.read_clock()
    named = {kind.breaker for kind in registry.all_types() if kind.breaker}
    states = dict.fromkeys(declarations.declared_names() | named, policy.State.CLOSED)
    states |= {row.name: policy.as_of(row.circuit, now).state for row in rows}
    for name, current in sorted(states.items()):
        for state in policy.State:
            yield Sample(int(state is current), {"breaker": name, "state": state.value})


def _alerts() -> Iterator[Sample]:
    rows = AlertKind.objects.all() if database.has_table(AlertKind) else ()
    totals = {(str(kind), result): 0 for kind in Kind for result in ("sent", "suppressed", "undelivered")}
    for row in rows:
        for kind, result in totals:
            if kind == row.kind.partition(".")[0]:
                totals[kind, result] += getattr(row, result)
    for (kind, result), count in sorted(totals.items()):
        yield Sample(count, {"kind": kind, "result": result})
