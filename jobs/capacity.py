"""How many jobs may be enqueued: the depth of the whole queue, and the rate of one submitter."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from django.db.models import F

from jobs import conf, database
from jobs.exceptions import QueueFull, RateLimited
from jobs.models import SubmissionWindow
from jobs.signals import raise_alarm

log = logging.getLogger("jobs.capacity")

_TRUST_PER_ROW = 10e-6
"""A count is believed for ten microseconds per row it counted: exact for small queues, cheap for large ones."""
_FAR = 10_000
"""With room for this many more, a count is believed for a second: nobody fills that up meanwhile unnoticed."""
_WARN_EVERY = 60.0
_ACTIVE = (
    "status = 'pending'",
    "status = 'waiting' AND NOT blocked",
    "status = 'waiting' AND blocked",
    "status = 'processing'",
)
"""Each as the condition of an index, so that none is counted by reading the table."""


@dataclass
class _Estimate:
    depth: int = 0
    counted_at: float = float("-inf")
    warned_at: float = float("-inf")


_estimate = _Estimate()


def forget_count() -> None:
    """The next enqueue counts anew: rows have gone without the queue's knowledge."""
    _estimate.depth, _estimate.counted_at, _estimate.warned_at = 0, float("-inf"), float("-inf")


def reserve(count: int) -> None:
    """Raise QueueFull when `count` more jobs would not fit under MAX_DEPTH."""
    limits = conf.current()
    now = time.monotonic()
    far = limits.max_depth - _estimate.depth > _FAR
    trusted = now - _estimate.counted_at < max(_estimate.depth * _TRUST_PER_ROW, 1.0 if far else 0.0)
    if not trusted or _estimate.depth + count > limits.max_depth:  # nobody is refused on an estimate
        _estimate.depth = count_active()
        _estimate.counted_at = time.monotonic()
    if _estimate.depth + count > limits.max_depth:
        raise QueueFull(_estimate.depth, limits.max_depth, count)
    _estimate.depth += count
    if _estimate.depth > limits.warn_depth and now - _estimate.warned_at > _WARN_EVERY:
        _estimate.warned_at = now
        log.warning("queue depth %d is above WARN_DEPTH %d", _estimate.depth, limits.warn_depth)
        raise_alarm("queue_depth_high", depth=_estimate.depth, limit=limits.warn_depth)


def count_active() -> int:
    counts = " + ".join(f"(SELECT count(*) FROM jobs_job WHERE {condition})" for condition in _ACTIVE)
    return int(database.fetch(f"SELECT {counts}")[0][0])


def count_submission(submitter: str, count: int) -> None:
    """Raise RateLimited when this submitter has used up its minute. Racing requests queue up at the counter's row."""
    limit = conf.current().submitter_rate
    if not submitter or not limit:
        return
    now = database.read_clock()
    minute = now.replace(second=0, microsecond=0)
    with database.atomic():
        window, _ = SubmissionWindow.objects.get_or_create(submitter=submitter, minute=minute)
        room = SubmissionWindow.objects.filter(pk=window.pk, count__lte=limit - count)
        if not room.update(count=F("count") + count):
            raise RateLimited(submitter, limit, retry_after=60 - now.second)
