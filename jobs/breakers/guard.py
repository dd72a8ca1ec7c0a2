"""`with breaker("payments"): …` guards a call anywhere: in a handler, in a view, in a command."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta

from django.db import Error as DatabaseError

from jobs import database
from jobs.breakers import circuits, marks
from jobs.breakers.declarations import check_name, terms_of
from jobs.breakers.policy import State, Verdict
from jobs.exceptions import BreakerOpen, JobTimeout, LeaseLost, PermanentFailure, RetryLater
from jobs.models import Breaker, BreakerProbe

log = logging.getLogger("jobs.breakers")

FULL = timedelta(seconds=5)
"""When to ask again while other trial calls are under way."""

running_job: ContextVar[str] = ContextVar("jobs_running_job", default="")
"""The job whose handler runs here: if it is a trial itself, calls inside it need no place of their own."""


@dataclass(frozen=True, slots=True)
class _Pass:
    name: str
    probe_id: str = ""
    job_id: str = ""
    is_news: bool = False
    """Its success changes the breaker."""


@contextmanager
def breaker(name: str) -> Iterator[None]:
    """Let the block run unless the breaker is open, and tell the breaker how it went.

    Raises BreakerOpen, which in a handler puts the job off until the breaker lets calls through and takes no attempt.
    What it notes joins the caller's transaction: use it outside of one, or a rollback takes the failure back as well.
    """
    check_name(name)
    admitted = _admit(name)
    try:
        yield
    except BaseException as error:
        _leave(admitted, verdict_of(error), reason=f"{type(error).__qualname__}: {_text(error)}")
        marks.mark(error, name)
        raise
    _leave(admitted, Verdict.SUCCESS)


def verdict_of(error: BaseException) -> Verdict | None:
    """What counts as a failure of the service: every error, rate limits (RetryLater) and timeouts included; not what is
    about the job alone (PermanentFailure, RetryLater that is not counted), and not being told to stop."""
    if isinstance(error, RetryLater):
        return Verdict.FAILURE if error.counted else None
    if isinstance(error, JobTimeout):
        return Verdict.FAILURE
    if isinstance(error, PermanentFailure | LeaseLost) or not isinstance(error, Exception):
        return None
    return Verdict.FAILURE


def _admit(name: str) -> _Pass:
    row = Breaker.objects.filter(pk=name).first()
    if row is None or row.state == State.CLOSED:
        return _Pass(name, is_news=row is not None and row.failures > 0)
    return database.when_unlocked(lambda: _admit_if_trial(name))


def _admit_if_trial(name: str) -> _Pass:
    with database.atomic():
        places = circuits.take_places(name)
        if places is None:
            return _Pass(name)
        job_id = running_job.get()
        if job_id and BreakerProbe.objects.filter(breaker=name, job_id=job_id).exists():
            return _Pass(name, job_id=job_id, is_news=True)
        if places:
            probe = BreakerProbe(breaker=name, expires_at=database.now_plus(terms_of(name).probe_timeout))
            probe.save(force_insert=True)
            return _Pass(name, probe_id=probe.pk, is_news=True)
        row = Breaker.objects.get(pk=name)
        wait = row.retry_at - database.read_clock() if row.retry_at else min(FULL, terms_of(name).cooldown)
    raise BreakerOpen(name, wait, row.reason)


def _leave(admitted: _Pass, verdict: Verdict | None, *, reason: str = "") -> None:
    try:
        database.when_unlocked(lambda: _note(admitted, verdict, reason))
    except DatabaseError:  # the block's own error, or its result, is what matters to the caller
        log.exception("breaker %s could not note how a call went", admitted.name)


def _note(admitted: _Pass, verdict: Verdict | None, reason: str) -> None:
    if verdict is None:
        if admitted.probe_id:
            circuits.free_place(admitted.probe_id)
        return
    if verdict is Verdict.SUCCESS and not admitted.is_news:
        return
    circuits.settle(
        admitted.name,
        verdict,
        job_ids=[admitted.job_id] if admitted.job_id else (),
        probe_id=admitted.probe_id,
        reason=reason if verdict is Verdict.FAILURE else "",
    )


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its message cannot be shown)"
