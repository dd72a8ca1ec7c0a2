"""Breakers in the database. Whoever changes one holds the lock of its row; the clock is the database's.

Locks are taken jobs first, then breakers in the order of their names, so that no two transactions wait in a circle.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from jobs import database, live, payloads, wakeup
from jobs.breakers import policy
from jobs.breakers.declarations import terms_of
from jobs.breakers.policy import Circuit, State, Verdict
from jobs.models import Breaker, BreakerProbe, Job, Status
from jobs.signals import announce_breaker

log = logging.getLogger("jobs.breakers")

LONGEST_REASON = 1000


def find_disturbed(names: Collection[str]) -> list[str]:
    """Those of these breakers that a success would change: open, half-open, or with failures in a row."""
    disturbed = Breaker.objects.filter(name__in=names).exclude(state=State.CLOSED, failures=0)
    return sorted(disturbed.values_list("name", flat=True))


def lock(name: str) -> tuple[Breaker, Circuit] | None:
    """Inside a transaction: its row, and its circuit as of now."""
    row = Breaker.objects.select_for_update().filter(pk=name).first()
    return None if row is None else (row, policy.as_of(row.circuit, database.read_clock()))


def take_places(name: str) -> int | None:
    """Inside a transaction: how many trial calls may start now, None: any number of calls. The row stays locked, so
    that nobody else counts until the caller has noted its own."""
    found = lock(name)
    if found is None:
        return None
    row, circuit = found
    _move(row, circuit)
    _dead_probes().filter(breaker=name).delete()
    return policy.places(circuit, terms_of(name), BreakerProbe.objects.filter(breaker=name).count())


def settle(
    name: str, verdict: Verdict, *, job_ids: Collection[str] = (), probe_id: str = "", reason: str = ""
) -> None:
    """Calls have returned: those of these jobs, or one that held this place, or (neither) any other."""
    with database.atomic():
        if verdict is Verdict.FAILURE:
            Breaker.objects.bulk_create([Breaker(name=name)], ignore_conflicts=True)
        found = lock(name)
        if found is None:
            return
        row, circuit = found
        held = Q(pk=probe_id) if probe_id else Q(job_id__in=list(job_ids))
        is_probe = bool(BreakerProbe.objects.filter(held, breaker=name).delete()[0])
        after = policy.next_state(
            circuit, verdict, terms_of(name), is_probe=is_probe, now=database.read_clock()
        )
        _move(row, after, reason)


def free_place(probe_id: str) -> None:
    """A trial call has ended and said nothing about the service."""
    BreakerProbe.objects.filter(pk=probe_id).delete()


def free_places() -> int:
    """Places of trial calls that will not return: their job has another lease or none, or their time is up."""
    return int(_dead_probes().delete()[0]) if database.has_table(BreakerProbe) else 0


def reset(names: Collection[str]) -> list[str]:
    """Closed, by order of somebody. Returns those that were not."""
    changed = []
    with database.atomic():
        for name in sorted(names):
            row = Breaker.objects.select_for_update().filter(pk=name).first()
            if row is not None and row.circuit != Circuit():
                _move(row, Circuit())
                changed.append(name)
    return changed


def _dead_probes() -> QuerySet[BreakerProbe]:
    runs = Job.objects.filter(pk=OuterRef("job_id"), status=Status.PROCESSING, lease_token=OuterRef("token"))
    dead = Q(expires_at__lte=Now()) | (Q(expires_at__isnull=True) & ~Exists(runs))
    probes: QuerySet[BreakerProbe] = BreakerProbe.objects.filter(dead)
    return probes


def _move(row: Breaker, after: Circuit, reason: str = "") -> None:
    """Write what has changed of a locked row, and tell whoever wants to know."""
    before = row.circuit
    if after == before:
        return
    row.state, row.failures, row.retry_at = after.state.value, after.failures, after.retry_at
    changed = ["state", "failures", "retry_at"]
    if reason:
        row.reason, row.failed_at = payloads.storable(reason)[:LONGEST_REASON], database.read_clock()
        changed += ["reason", "failed_at"]
    if after.state is not before.state:
        row.since = database.read_clock()
        changed.append("since")
    row.save(update_fields=changed)
    if after.state is before.state:
        return
    if after.state is not State.HALF_OPEN:
        BreakerProbe.objects.filter(breaker=row.name).delete()
    level = logging.WARNING if after.state is State.OPEN else logging.INFO
    log.log(
        level, "breaker %s: %s → %s%s", row.name, before.state, after.state, f" ({reason})" if reason else ""
    )
    announce_breaker(row.name, before.state, after.state, row.reason)
    live.hint_on_commit()
    if after.state is State.CLOSED:
        wakeup.on_commit()  # its jobs may be claimed again
