"""→ waiting / pending: accept a job, or refuse it and write nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from jobs import capacity, conf, database, payloads, registry
from jobs.backoff import LONGEST
from jobs.exceptions import BadValue, EnqueueRefused
from jobs.lifecycle.writing import Draft, Terms, write
from jobs.models import Job, Status
from jobs.priorities import Priority, is_whole, parse_priority
from jobs.ulid import new_ulids


def enqueue(
    type_name: str,
    payload: Mapping[str, Any] | None = None,
    /,
    *,
    priority: Priority | None = None,
    delay: timedelta | float | None = None,
    run_at: datetime | None = None,
    unique_key: str | None = None,
    submitter: str = "",
    correlation_id: str | None = None,
    max_attempts: int | None = None,
    **arguments: Any,
) -> Job:
    """Add a job, in the caller's transaction. Returns it; `.created` is False when its unique key was taken.

    The payload is the keyword arguments; a field that is named like an option goes into the dictionary.
    """
    terms = make_terms(
        type_name,
        priority=priority,
        delay=delay,
        run_at=run_at,
        submitter=submitter,
        correlation_id=correlation_id,
        max_attempts=max_attempts,
    )
    merged = payloads.merge(payload, arguments)
    draft = Draft(new_ulids(1)[0], payloads.encode_payload(merged), check_unique_key(unique_key))
    try:
        admit(terms, 1)
    except EnqueueRefused:
        existing = find_active(draft.unique_key)
        if existing is None:
            raise
        return existing  # there is nothing to add, so nothing to refuse
    return insert(terms, draft)


def find_active(unique_key: str | None) -> Job | None:
    """The active job that has this key."""
    if unique_key is None:
        return None
    existing: Job | None = Job.objects.active().filter(unique_key=unique_key).first()
    if existing is not None:
        existing.created = False
    return existing


def enqueue_many(
    type_name: str,
    payloads_: Iterable[Mapping[str, Any]],
    /,
    *,
    priority: Priority | None = None,
    delay: timedelta | float | None = None,
    run_at: datetime | None = None,
    unique_key: Callable[[Mapping[str, Any]], str] | None = None,
    submitter: str = "",
    correlation_id: str | None = None,
    max_attempts: int | None = None,
) -> list[str]:
    """Add one job per payload in one round trip, all or none. Returns their ids in the same order.

    `unique_key` maps a payload to its key; where it is taken, the id of the job that has it is returned.
    """
    terms = make_terms(
        type_name,
        priority=priority,
        delay=delay,
        run_at=run_at,
        submitter=submitter,
        correlation_id=correlation_id,
        max_attempts=max_attempts,
    )
    items = list(payloads_)
    drafts = [
        Draft(id, payloads.encode_payload(item), check_unique_key(unique_key(item)) if unique_key else None)
        for id, item in zip(new_ulids(len(items)), items, strict=True)
    ]
    if not drafts:
        return []
    admit(terms, len(drafts))
    if unique_key:
        return _insert_many(terms, drafts)
    write(terms, drafts)
    return [draft.id for draft in drafts]


def make_terms(
    type_name: str,
    *,
    priority: Priority | None = None,
    delay: timedelta | float | None = None,
    run_at: datetime | None = None,
    submitter: str = "",
    correlation_id: str | None = None,
    max_attempts: int | None = None,
) -> Terms:
    kind = registry.get(type_name)
    if delay is not None and run_at is not None:
        raise EnqueueRefused("Give delay or run_at, not both.", code="delay_and_run_at")
    _check_moment(run_at)
    attempts = max_attempts
    if attempts is None:
        attempts = kind.max_attempts or conf.current().max_attempts
    if not is_whole(attempts) or attempts < 1:
        raise EnqueueRefused(
            f"max_attempts must be a whole number of at least 1, not {attempts!r}.", code="bad_max_attempts"
        )
    try:
        level = parse_priority(kind.priority if priority is None else priority)
    except BadValue as problem:
        raise EnqueueRefused(str(problem), code=problem.code) from None
    _check_text("submitter", submitter, 200)
    _check_text("correlation_id", correlation_id or "", 64)
    return Terms(type_name, level, attempts, _in_seconds(delay), run_at, submitter, correlation_id or None)


def _in_seconds(delay: timedelta | float | None) -> float:
    try:
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay or 0)
    except (TypeError, ValueError):
        seconds = -1
    if not 0 <= seconds <= LONGEST.total_seconds():
        raise EnqueueRefused(
            f"delay must lie between now and a hundred years from now, not {delay!r}.", code="bad_delay"
        )
    return seconds


def _check_moment(run_at: Any) -> None:
    if run_at is not None and (not isinstance(run_at, datetime) or timezone.is_naive(run_at)):
        raise EnqueueRefused(
            f"run_at must be a datetime that carries a time zone, not {run_at!r}.", code="bad_run_at"
        )


def check_unique_key(key: str | None) -> str | None:
    if key is not None:
        if not key:
            raise EnqueueRefused(
                "unique_key must not be empty; leave it out for a job without one.", code="bad_unique_key"
            )
        _check_text("unique_key", key, 200)
    return key


def _check_text(field: str, text: Any, limit: int) -> None:
    if not isinstance(text, str) or len(text) > limit or text != payloads.storable(text):
        raise EnqueueRefused(f"{field} must be text of at most {limit} characters.", code=f"bad_{field}")


def admit(terms: Terms, count: int) -> None:
    capacity.reserve(count)
    capacity.count_submission(terms.submitter, count)


def insert(terms: Terms, draft: Draft) -> Job:
    """Write one row, or find the one that was there first (same unique key, or same derived id)."""
    for _ in range(10):
        if write(terms, [draft]):
            return _as_written(terms, draft)
        existing = Job.objects.filter(pk=draft.id).first() or find_active(draft.unique_key)
        if existing is not None:
            existing.created = False
            return existing
        # The job that had the key has ended in between: the key is free again.
    raise EnqueueRefused(
        f"The unique key {draft.unique_key!r} changes hands too quickly; try again.",
        code="unique_key_contended",
    )


def _insert_many(terms: Terms, drafts: Sequence[Draft]) -> list[str]:
    """Write the rows whose unique keys are free, in one statement; the ids of the jobs that have the keys now."""
    with database.atomic():
        in_order = drafts
        if database.is_postgres():
            # In the order of the keys: submissions of the same keys may wait for each other, but never in a circle.
            in_order = sorted(drafts, key=lambda draft: draft.unique_key or "")
        if write(terms, in_order) == len(drafts):
            return [draft.id for draft in drafts]
        keys = [draft.unique_key for draft in drafts]
        owners: dict[str | None, str] = {}
        for start in range(0, len(keys), 500):
            taken = Job.objects.active().filter(unique_key__in=keys[start : start + 500])
            owners.update(taken.values_list("unique_key", "pk"))
        return [owners.get(draft.unique_key) or insert(terms, draft).id for draft in drafts]


def _as_written(terms: Terms, draft: Draft) -> Job:
    """The new job; what only the database knows (its times) is fetched when somebody asks."""
    values = [
        draft.id,
        terms.type,
        terms.priority,
        terms.blocked,
        terms.max_attempts,
        terms.correlation_id or draft.id,
        draft.unique_key,
        terms.submitter,
        terms.workflow_id,
        terms.parent_id,
    ]
    names = _KNOWN
    if terms.run_at is None:
        names = _KNOWN_WITH_STATUS
        values.insert(2, Status.WAITING if terms.blocked or terms.delay > 0 else Status.PENDING)
    job: Job = Job.from_db(database.alias(), names, values)
    job.created = True
    return job


_KNOWN = [
    *("id", "type", "priority", "blocked", "max_attempts"),
    *("correlation_id", "unique_key", "submitter", "workflow_id", "parent_id"),
]
"""What an enqueuer knows of its new row, in the order of the model's fields."""
_KNOWN_WITH_STATUS = [*_KNOWN[:2], "status", *_KNOWN[2:]]
