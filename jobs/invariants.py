"""The rules that must hold at every moment, whatever crashed. A broken one is a bug in the queue.

Each rule reads the database in one statement, so it tells the truth beside running workers too. Constraints refuse some
of these rows already; the rules say it once more, for a database whose constraints somebody has dropped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet

from jobs import database, registry
from jobs.ledger import find_jobs
from jobs.models import (
    ACTIVE,
    FINISHED,
    Attempt,
    Event,
    Job,
    JobTypeState,
    Kind,
    Outcome,
    Prerequisite,
    Status,
)
from jobs.models.job import JobQuerySet

SHOWN = 20


@dataclass(frozen=True)
class Violation:
    rule: str
    subject: str
    code: str
    """The app and the name of the function that checks the rule, such as "jobs.known_status"."""
    by_hand: str = ""
    """What a person has to do; empty: `manage.py reconcile` repairs it."""

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}"


Rule = Callable[[], Iterable[Any]]
RULES: dict[str, Rule] = {}
ON_DISK: dict[str, Rule] = {}
"""Rules that look at files, one by one."""
_by_hand: dict[Rule, str] = {}
_limit: ContextVar[int] = ContextVar("limit", default=SHOWN)


def rule(text: str, *, on_disk: bool = False, by_hand: str = "") -> Callable[[Rule], Rule]:
    """Register the check of a rule: it returns what breaks it.

    `manage.py reconcile` repairs that, or else `by_hand` says what a person has to do.
    """

    def register(check: Rule) -> Rule:
        (ON_DISK if on_disk else RULES)[text] = check
        if by_hand:
            _by_hand[check] = by_hand
        return check

    return register


def is_repaired(check: Rule) -> bool:
    """Whether `manage.py reconcile` puts right what breaks this rule."""
    return check not in _by_hand


def subjects_of(check: Rule, *, limit: int) -> list[Any]:
    """What breaks this rule, up to so many."""
    token = _limit.set(limit)
    try:
        return list(_some(check()))
    finally:
        _limit.reset(token)


def broken_rules(*, on_disk: bool = False) -> list[Violation]:
    """What is wrong, up to SHOWN subjects of each rule; empty when all is well. Files are looked at if asked for."""
    with database.joins_in_one_pass():
        broken = list(_broken(RULES))
    return [*broken, *_broken(ON_DISK)] if on_disk else broken


def _broken(rules: dict[str, Rule]) -> Iterator[Violation]:
    return (
        Violation(text, str(subject), code_of(check), _by_hand.get(check, ""))
        for text, check in rules.items()
        for subject in _some(check())
    )


def code_of(check: Rule) -> str:
    return f"{check.__module__.partition('.')[0]}.{check.__name__.removeprefix('_')}"


def _some(subjects: Iterable[Any]) -> Iterable[Any]:
    return subjects[: _limit.get()] if isinstance(subjects, QuerySet) else islice(subjects, _limit.get())


def _jobs() -> JobQuerySet:
    jobs: JobQuerySet = Job.objects.only("id", "type").order_by("pk")
    return jobs


# -- one job (SPEC 1.2) ----------------------------------------------------------------------------------------------


@rule("a job has one of the six statuses")
def _known_status() -> Iterable[Any]:
    return _jobs().exclude(status__in=Status.values)


@rule("a job is processing exactly when it has a worker, a token and an expiry")
def _lease_fields() -> Iterable[Any]:
    lease = Q(
        worker__isnull=False, claim_expires_at__isnull=False, claimed_at__isnull=False, lease_token__gt=0
    )
    trace = Q(worker__isnull=False) | Q(claim_expires_at__isnull=False)
    processing = Q(status=Status.PROCESSING)
    return _jobs().filter((processing & ~lease) | (~processing & trace))


@rule("a job is completed exactly when completed_at is set")
def _completed_at() -> Iterable[Any]:
    return _jobs().exclude(_both_or_neither(Q(status=Status.COMPLETED), Q(completed_at__isnull=False)))


@rule("only a processing or completed job has claimed_at, and a completed one has no last_error")
def _stale_marks() -> Iterable[Any]:
    return _jobs().with_stale_marks()


@rule("a job is cancelled exactly when cancelled_at is set, and only then has a cause")
def _cancelled_at() -> Iterable[Any]:
    agrees = _both_or_neither(Q(status=Status.CANCELLED), Q(cancelled_at__isnull=False))
    return _jobs().exclude(agrees & (Q(status=Status.CANCELLED) | Q(cancelled_because="")))


@rule("a job has between 0 and max_attempts attempts, and progress between 0 and 100")
def _bounds() -> Iterable[Any]:
    attempts = Q(attempt_number__gte=0, max_attempts__gte=1, attempt_number__lte=F("max_attempts"))
    return _jobs().exclude(attempts & Q(progress_percent__gte=0, progress_percent__lte=100))


@rule("only a waiting job is blocked")
def _blocked_only_waiting() -> Iterable[Any]:
    return _jobs().filter(blocked=True).exclude(status=Status.WAITING)


@rule("one active job per unique key", by_hand="cancel all but one of them")
def _unique_active() -> Iterable[Any]:
    active = _jobs().filter(status__in=ACTIVE, unique_key__isnull=False).order_by()
    return active.values("unique_key").annotate(count=Count("pk")).filter(count__gt=1)


@rule("a failed job says why, and was failed by its newest attempt or lost with its last one")
def _failed_with_reason() -> Iterable[Any]:
    by_failure = "failed_token = newest"
    by_loss = "lost_token = newest AND number >= max_attempts"
    return _ledger(f"status = 'failed' AND (says_why = 0 OR newest = 0 OR NOT ({by_failure} OR ({by_loss})))")


@rule("a completed job was completed by its newest lease or by reconcile")
def _completed_by_somebody() -> Iterable[Any]:
    by_lease = "completed_token > 0 AND completed_token = token"
    return _ledger(f"status = 'completed' AND reconciliations = 0 AND NOT ({by_lease})")


@rule("nothing runs after its completion, unless reconcile missed its artifact")
def _ran_again() -> Iterable[Any]:
    return _ledger("first_completed > 0 AND newest > first_completed AND reconciliations = 0")


# -- its attempts and events (SPEC 1.2, 1.6) -------------------------------------------------------------------------


@rule("a processing job has exactly one running attempt: with its token, its number, its worker")
def _running_attempt() -> Iterable[Any]:
    differs = "running_token <> token OR running_number <> number OR running_worker <> worker"
    return _ledger(f"status = 'processing' AND (running <> 1 OR {differs})")


@rule("a job that is not processing has no running attempt")
def _no_orphaned_attempt() -> Iterable[Any]:
    return _ledger("status <> 'processing' AND running > 0")


@rule("an attempt is over exactly when it has an end")
def _finished_at() -> Iterable[Any]:
    return Attempt.objects.exclude(_both_or_neither(Q(outcome=Outcome.RUNNING), Q(finished_at__isnull=True)))


@rule("no attempt has a token beyond its job's, and none is recovered without the token moving on")
def _token_monotonic() -> Iterable[Any]:
    return _ledger("newest > token OR (lost > 0 AND lost_token >= token)")


@rule("every claim since the job started over is counted, but for released ones")
def _attempts_counted() -> Iterable[Any]:
    return _ledger("claims < number OR (claims <> number AND starts_over = 0)")


@rule("every recovery and every release has left its event")
def _traces() -> Iterable[Any]:
    return _ledger("lost <> recoveries OR released > releases")


@rule("every cancelled job has the event that says why")
def _cancelled_with_trace() -> Iterable[Any]:
    return _ledger("status = 'cancelled' AND cancellations = 0")


# -- who runs what (SPEC 1.5) ----------------------------------------------------------------------------------------


@rule("a worker runs only types it handles", by_hand="cancel the job, or wait for its end")
def _foreign_type() -> Iterable[Any]:
    leased = Job.objects.leased().values_list("pk", "type", "worker__name", "worker__job_types")
    return (
        f"{worker} runs {type} {pk}" for pk, type, worker, handled in leased if type not in (handled or [])
    )


@rule("no type has more live leases than its limit", by_hand="cancel some, or wait for their end")
def _over_limit() -> Iterable[Any]:
    """Somebody may have lowered the limit under running jobs; so the higher of the declared and the set one counts."""
    running = Job.objects.claimed().values_list("type").annotate(count=Count("pk")).order_by("type")
    counts = dict(running)
    chosen = dict(JobTypeState.objects.filter(name__in=counts).values_list("name", "concurrency"))
    for name, count in counts.items():
        kind = registry.find(name)
        limits = (
            [limit for limit in (kind.concurrency, chosen.get(name)) if limit is not None] if kind else []
        )
        if limits and count > max(limits):
            yield f"{name} runs {count} times, the limit is {max(limits)}"


# -- workflows (SPEC 1.8) --------------------------------------------------------------------------------------------


@rule("a pending or processing job has no unmet prerequisite, but for one that has started over since")
def _ran_too_early() -> Iterable[Any]:
    # run_at is the moment since when a pending job can be claimed; what starts over later does not unmake that.
    again = Event.objects.filter(
        job=OuterRef("needs"),
        kind__in=(Kind.RETRIED, Kind.REVIVED, Kind.RECONCILED),
        at__gte=OuterRef("job__run_at"),
    )
    unmet = Prerequisite.objects.filter(~_MET, ~Exists(again), job=OuterRef("pk"))
    return _jobs().filter(Exists(unmet), status__in=(Status.PENDING, Status.PROCESSING))


@rule("a blocked job has a prerequisite that can still end")
def _stuck() -> Iterable[Any]:
    open_edge = Prerequisite.objects.filter(job=OuterRef("pk")).exclude(needs__status__in=FINISHED)
    return _jobs().filter(~Exists(open_edge), status=Status.WAITING, blocked=True)


@rule("a job that needs a failed or cancelled one does not wait for it")
def _doomed() -> Iterable[Any]:
    fatal = Prerequisite.objects.filter(
        job=OuterRef("pk"), optional=False, needs__status__in=(Status.FAILED, Status.CANCELLED)
    )
    return _jobs().filter(Exists(fatal), status=Status.WAITING, blocked=True)


@rule("a job that others need knows it, or its end would not be told to them")
def _unaware() -> Iterable[Any]:
    return _jobs().filter(Exists(Prerequisite.objects.filter(needs=OuterRef("pk"))), has_dependants=False)


@rule("what a job's end has cancelled is cancelled only as long as that end stands")
def _needlessly_cancelled() -> Iterable[Any]:
    cause = Job.objects.filter(pk=OuterRef("cancelled_because"), status__in=(*ACTIVE, Status.COMPLETED))
    return _jobs().filter(Exists(cause), status=Status.CANCELLED)


@rule("prerequisites of blocked jobs do not form a circle", by_hand="cancel one of them")
def _circular() -> Iterable[Any]:
    waiting = Prerequisite.objects.filter(job__status=Status.WAITING, job__blocked=True)
    edges = list(waiting.values_list("job_id", "needs_id"))
    blocked = {job for job, _ in edges}
    open_needs, dependants = Counter[str](), defaultdict(list)
    for job, needed in edges:
        if needed in blocked:
            open_needs[job] += 1
            dependants[needed].append(job)
    # Take away the jobs that need no blocked one, then those that needed only these, …: circles and their tails remain.
    free = [job for job in blocked if not open_needs[job]]
    for job in free:
        for dependant in dependants[job]:
            open_needs[dependant] -= 1
            if not open_needs[dependant]:
                free.append(dependant)
    return sorted(blocked.difference(free))


_MET = Q(needs__status=Status.COMPLETED) | Q(optional=True, needs__status__in=FINISHED)


def _both_or_neither(one: Q, other: Q) -> Q:
    return (one & other) | (~one & ~other)


def _ledger(condition: str) -> list[str]:
    return find_jobs(condition, limit=_limit.get())
