"""waiting → pending: the time has come and every prerequisite is completed. Never completes anything itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from jobs import database, wakeup
from jobs.exceptions import TransitionRefused
from jobs.models import FINISHED, Event, Job, Kind, Prerequisite, Status
from jobs.signals import Transition, announce

BATCH = 1000

AFRESH: dict[str, Any] = {
    "attempt_number": 0,
    "claimed_at": None,
    "cancelled_at": None,
    "cancelled_because": "",
    "completed_at": None,
    "progress_percent": 0,
    "current_step": "",
    "result": None,
}
"""What a job forgets when it starts over. Its errors stay in its attempts."""


@dataclass(frozen=True)
class Edge:
    """What a prerequisite's state means to the job that needs it."""

    needs: str
    status: str
    optional: bool
    cancelled_because: str = ""

    @property
    def is_satisfied(self) -> bool:
        return self.status == Status.COMPLETED or (self.optional and self.status in FINISHED)

    @property
    def is_fatal(self) -> bool:
        return not self.optional and self.status in (Status.FAILED, Status.CANCELLED)

    @property
    def cause(self) -> str:
        """The job at the root of the trouble: retrying it revives what it cancelled."""
        return self.cancelled_because or self.needs


READY = "ready"
BLOCKED = "blocked"
DOOMED = "doomed"


def verdict(edges: Iterable[Edge]) -> tuple[str, str]:
    """What a waiting job's prerequisites say of it: (READY | BLOCKED | DOOMED, the cause when doomed)."""
    edges = list(edges)
    for edge in edges:
        if edge.is_fatal:
            return DOOMED, edge.cause
    return (READY if all(edge.is_satisfied for edge in edges) else BLOCKED), ""


def promote_due() -> int:
    """Make jobs pending whose time has come. Several orchestrators share the work without waiting for each other."""
    with database.atomic(savepoint=False):
        due = Job.objects.due().order_by("run_at").select_for_update(skip_locked=True)
        rows = list(due.values("id", "type", "workflow_id", "priority")[:BATCH])
        promote({row["id"]: row for row in rows})
    return len(rows)


def has_due(types: Collection[str]) -> bool:
    """A job of these types waits for nothing but promote_due()."""
    return bool(Job.objects.due().filter(type__in=types).exists())


def promote(rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Make locked jobs pending whose time has come; where a prerequisite has started over, they wait for it again."""
    unmet = Prerequisite.objects.filter(job__in=list(rows)).exclude(
        Q(needs__status=Status.COMPLETED) | Q(optional=True, needs__status__in=FINISHED)
    )
    held = set(unmet.values_list("job_id", flat=True)) if rows else set()
    ready = [job_id for job_id in rows if job_id not in held]
    if ready:
        Job.objects.filter(pk__among=ready).update(status=Status.PENDING)
        announce(_transitions(ready, rows, Status.PENDING))
        wakeup.on_commit(min(rows[job_id]["priority"] for job_id in ready))
    hold(held)


def hold(ids: Collection[str]) -> None:
    """Let these locked jobs wait for their prerequisites: they end up pending, blocked or cancelled, as those stand.

    The prerequisites are locked first, so that none can end unnoticed meanwhile.
    """
    if not ids:
        return
    needed = Prerequisite.objects.filter(job__in=list(ids)).values_list("needs", flat=True)
    list(Job.objects.filter(pk__among=set(needed)).order_by("pk").select_for_update().values_list("pk"))
    Job.objects.filter(pk__among=list(ids)).update(status=Status.WAITING, blocked=True)
    advance(settle(_blocked().filter(pk__among=list(ids))))


def advance(finished: Collection[str]) -> None:
    """In the transaction that ended these jobs: settle what depends on them, and on what that cancels."""
    while finished:
        finished = settle(_blocked().filter(prerequisites__needs__pk__among=finished))


def repair() -> int:
    """Settle blocked jobs whose prerequisites have all ended, should advance() ever have missed one."""
    unfinished = Prerequisite.objects.filter(job=OuterRef("pk")).exclude(needs__status__in=FINISHED)
    doomed = Prerequisite.objects.filter(
        job=OuterRef("pk"), optional=False, needs__status__in=(Status.FAILED, Status.CANCELLED)
    )
    stuck = list(_blocked().filter(~Exists(unfinished) | Exists(doomed)).values_list("pk", flat=True)[:BATCH])
    if stuck:
        with database.atomic():
            advance(settle(_blocked().filter(pk__among=stuck)))
    return len(stuck)


def settle(jobs: Any) -> list[str]:
    """Promote or cancel blocked jobs by the verdict on their prerequisites. Returns those it cancelled.

    The dependants are locked before their prerequisites are read: when two prerequisites end at the same moment,
    the second transaction waits here and then sees both ends.
    """
    ids = sorted(set(jobs.values_list("pk", flat=True)))
    locked = {
        row["id"]: row
        for row in _blocked()
        .filter(pk__among=ids)
        .order_by("pk")
        .select_for_update()
        .values("id", "type", "workflow_id", "priority", "has_dependants")
    }
    verdicts = {job_id: verdict(edges) for job_id, edges in edges_of(locked).items()}
    ready = [job_id for job_id, (word, _) in verdicts.items() if word == READY]
    doomed = [job_id for job_id, (word, _) in verdicts.items() if word == DOOMED]
    _unblock(ready, locked)
    for job_id in doomed:
        _cancel(job_id, verdicts[job_id][1])
    announce(_transitions(doomed, locked, Status.CANCELLED))
    return [job_id for job_id in doomed if locked[job_id]["has_dependants"]]


def _unblock(ids: Collection[str], rows: dict[str, Any]) -> None:
    if not ids:
        return
    due = Job.objects.filter(pk__among=ids, run_at__lte=Now())
    now_pending = list(due.values_list("pk", flat=True))
    Job.objects.filter(pk__among=now_pending).update(status=Status.PENDING, blocked=False, run_at=Now())
    Job.objects.filter(pk__among=set(ids) - set(now_pending)).update(blocked=False)
    announce(_transitions(now_pending, rows, Status.PENDING))
    wakeup.on_commit(min(rows[job_id]["priority"] for job_id in ids))


def _cancel(job_id: str, cause: str) -> None:
    Job.objects.filter(pk=job_id).update(
        status=Status.CANCELLED, blocked=False, cancelled_at=Now(), cancelled_because=cause
    )
    Event.record([job_id], Kind.CANCELLED, detail=f"prerequisite {cause} did not complete")


def revive(retried: Collection[str]) -> list[str]:
    """Bring back what the failure of these jobs had cancelled. Returns the ids."""
    fallen = Job.objects.filter(status=Status.CANCELLED, cancelled_because__in=list(retried))
    rows = list(fallen.order_by("pk").select_for_update().values_list("pk", "unique_key"))
    ids = [job_id for job_id, key in rows if key is None or _may_return(job_id)]
    if ids:
        Job.objects.filter(pk__among=ids).update(**AFRESH, status=Status.WAITING, blocked=True)
        Event.record(ids, Kind.REVIVED, detail="its prerequisite is tried again")
        hold(ids)
    return ids


def _may_return(job_id: str) -> bool:
    """False: another active job has its unique key by now. Then it stays cancelled, for a person to decide."""
    job = Job.objects.filter(pk=job_id)
    try:
        with database.atomic():
            job.update(status=Status.WAITING)
    except IntegrityError:
        job.update(cancelled_because="")
        Event.record([job_id], Kind.CANCELLED, detail="not revived: another active job has its unique key")
        return False
    return True


def refuse_if_doomed(edges: Mapping[str, list[Edge]]) -> None:
    """A job can only start over if each of its prerequisites has completed or still can."""
    for job_id, own in edges.items():
        word, cause = verdict(own)
        if word == DOOMED:
            raise TransitionRefused(
                f"Job {job_id} needs {cause}, which did not complete; retry that one instead.",
                code="prerequisite_failed",
            )


def edges_of(job_ids: Collection[str]) -> dict[str, list[Edge]]:
    """The prerequisites of each of these jobs as they are now; jobs without any have an empty list."""
    edges: dict[str, list[Edge]] = defaultdict(list, {job_id: [] for job_id in job_ids})
    rows = Prerequisite.objects.filter(job__pk__among=job_ids).values_list(
        "job_id", "needs_id", "needs__status", "optional", "needs__cancelled_because"
    )
    for job_id, needs, status, optional, because in rows:
        edges[job_id].append(Edge(needs, status, optional, because))
    return dict(edges)


def cut_loose(job_ids: Collection[str]) -> None:
    """Before finished jobs are deleted: what was blocked by nothing else must not wait for ever."""
    waiting = list(_blocked().filter(prerequisites__needs__pk__among=job_ids).values_list("pk", flat=True))
    if waiting:
        raise TransitionRefused(f"Job {waiting[0]} still depends on one of these jobs.", code="still_needed")


def _blocked() -> Any:
    return Job.objects.filter(Q(status=Status.WAITING, blocked=True))


def _transitions(
    ids: Iterable[str], rows: Mapping[str, Mapping[str, Any]], after: Status
) -> list[Transition]:
    return [
        Transition(job_id, rows[job_id]["type"], Status.WAITING, after, rows[job_id]["workflow_id"])
        for job_id in ids
    ]
