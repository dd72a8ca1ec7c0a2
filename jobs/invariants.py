"""The rules that must hold at every moment, whatever crashed. A broken one is a bug in the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q

from jobs.models import ACTIVE, FINISHED, Attempt, Job, Outcome, Prerequisite, Status

SHOWN = 20


@dataclass(frozen=True)
class Violation:
    rule: str
    subject: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}"


Rule = Callable[[], Iterable[Any]]
RULES: dict[str, Rule] = {}


def rule(text: str) -> Callable[[Rule], Rule]:
    def register(check: Rule) -> Rule:
        RULES[text] = check
        return check

    return register


def broken_rules() -> list[Violation]:
    return [Violation(text, str(subject)) for text, check in RULES.items() for subject in list(check())[:SHOWN]]


@rule("a job is processing exactly when it has a worker, a token and an expiry")
def _lease_fields() -> Iterable[Any]:
    leased = Q(worker__isnull=False, claim_expires_at__isnull=False, lease_token__gt=0)
    return Job.objects.filter((Q(status=Status.PROCESSING) & ~leased) | (~Q(status=Status.PROCESSING) & Q(worker__isnull=False)))


@rule("a job is completed exactly when completed_at is set")
def _completed_at() -> Iterable[Any]:
    return Job.objects.filter(
        Q(status=Status.COMPLETED, completed_at__isnull=True) | (~Q(status=Status.COMPLETED) & Q(completed_at__isnull=False))
    )


@rule("attempt_number never exceeds max_attempts")
def _attempt_bounds() -> Iterable[Any]:
    return Job.objects.filter(attempt_number__gt=F("max_attempts"))


@rule("a processing job has exactly one running attempt, with its token")
def _running_attempt() -> Iterable[Any]:
    own = Attempt.objects.filter(job=OuterRef("pk"), outcome=Outcome.RUNNING, token=OuterRef("lease_token"))
    return Job.objects.leased().filter(~Exists(own))


@rule("a job that is not processing has no running attempt")
def _no_orphaned_attempt() -> Iterable[Any]:
    return Attempt.objects.filter(outcome=Outcome.RUNNING).exclude(job__status=Status.PROCESSING)


@rule("no attempt has a token beyond its job's")
def _token_monotonic() -> Iterable[Any]:
    return Attempt.objects.filter(token__gt=F("job__lease_token"))


@rule("one active job per unique key")
def _unique_active() -> Iterable[Any]:
    active = Job.objects.filter(status__in=ACTIVE, unique_key__isnull=False)
    return active.values("unique_key").annotate(count=Count("pk")).filter(count__gt=1).order_by()


@rule("a pending or processing job has no unmet prerequisite")
def _ran_too_early() -> Iterable[Any]:
    unmet = Prerequisite.objects.filter(job=OuterRef("pk")).exclude(
        Q(needs__status=Status.COMPLETED) | Q(optional=True, needs__status__in=FINISHED)
    )
    # A prerequisite that is retried or reconciled afterwards does not unmake what has begun.
    return Job.objects.filter(status=Status.PENDING, attempt_number=0, started_at__isnull=True).filter(
        Exists(unmet), ~Exists(Prerequisite.objects.filter(job=OuterRef("pk"), needs__events__isnull=False))
    )


@rule("a blocked job has a prerequisite that can still complete")
def _stuck() -> Iterable[Any]:
    open_edge = Prerequisite.objects.filter(job=OuterRef("pk")).exclude(needs__status__in=FINISHED)
    return Job.objects.filter(status=Status.WAITING, blocked=True).filter(~Exists(open_edge))


@rule("a job that needs a failed or cancelled one is not waiting for it")
def _doomed() -> Iterable[Any]:
    fatal = Prerequisite.objects.filter(
        job=OuterRef("pk"), optional=False, needs__status__in=(Status.FAILED, Status.CANCELLED)
    )
    return Job.objects.filter(status=Status.WAITING, blocked=True).filter(Exists(fatal))


@rule("a failed job has used its attempts or failed for good, and says why")
def _failed_with_reason() -> Iterable[Any]:
    return Job.objects.failed().filter(last_error="")
