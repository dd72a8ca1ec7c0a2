"""Listens to what happens in the queue, and sends alerts once it is committed. It can neither fail nor undo it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.dispatch import receiver

from jobs import database
from jobs.alerts import patterns
from jobs.alerts.sending import is_wanted, send
from jobs.alerts.subjects import subject_of
from jobs.alerts.wording import ABOUT_ALERTS, Kind
from jobs.models import AlertKind, Job, Status
from jobs.signals import BreakerChange, Transition, alarm_raised, breaker_changed, jobs_changed

log = logging.getLogger("jobs.alerts")


@receiver(alarm_raised)
def on_alarm(kind: str, facts: Mapping[str, Any], **kwargs: Any) -> None:
    if is_wanted(Kind(kind)):
        _after_commit(lambda: send(Kind(kind), _with_subject(facts)))


def _with_subject(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is told of a job says what that is about: people know the video, not the job."""
    job = Job.objects.filter(pk=facts["job"]).first() if "job" in facts else None
    subject = subject_of(job) if job else None
    return {**facts, "subject": subject} if subject else facts


@receiver(breaker_changed)
def on_breaker(change: BreakerChange, **kwargs: Any) -> None:
    if change.after == "open" and is_wanted(Kind.BREAKER_OPENED):
        facts = {"breaker": change.name, "reason": change.reason}
        _after_commit(lambda: send(Kind.BREAKER_OPENED, facts))


@receiver(jobs_changed)
def on_jobs(transitions: Sequence[Transition], **kwargs: Any) -> None:
    # An alert that cannot be delivered is no reason for another.
    failed = [t.job_id for t in transitions if t.after == Status.FAILED and t.type != ABOUT_ALERTS]
    if failed and is_wanted(Kind.JOB_MAX_RETRIES_EXCEEDED, Kind.JOB_FAILED_PATTERN):
        _after_commit(lambda: tell_of_failures(failed))


def _after_commit(action: Callable[[], object]) -> None:
    def contained() -> None:
        try:
            if database.has_table(AlertKind):
                action()
        except Exception:
            log.exception("an alert could not be enqueued")

    database.on_commit(contained)


def tell_of_failures(job_ids: Sequence[str]) -> None:
    """Failures that make up a pattern are one alert; those that belong to one that people know of are none."""
    jobs = patterns.look_up(job_ids)
    traits = {job.pk: patterns.traits_of(job) for job in jobs}
    seen = patterns.note(trait for own in traits.values() for trait in own)
    told: set[str] = set()
    alone: list[Job] = []
    for job in jobs:
        own = [seen[trait.key] for trait in traits[job.pk]]
        due = [sighting for sighting in own if sighting.is_due and sighting.trait.key not in told]
        if due and _tell_of_pattern(job, due[0]):
            told |= {sighting.trait.key for sighting in due}
        elif not any(sighting.is_known or sighting.trait.key in told for sighting in own):
            alone.append(job)
    patterns.mark_alerted(told)
    if alone:
        job = alone[0]
        facts = {"job": job.pk, "type": job.type, "error": job.last_error, "attempts": job.attempt_number}
        send(Kind.JOB_MAX_RETRIES_EXCEEDED, _with_subject(facts), others=len(alone) - 1)


def _tell_of_pattern(job: Job, sighting: patterns.Sighting) -> bool:
    facts = {
        "subject": sighting.trait.subject,
        "count": sighting.count,
        "error": sighting.trait.error,
        "type": job.type,
        "job": job.pk,
    }
    return send(Kind.JOB_FAILED_PATTERN, facts)
