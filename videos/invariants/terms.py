"""What the rules have in common."""

from __future__ import annotations

from django.db.models import Q

from videos.models import TranscodeStatus

ENDED = (TranscodeStatus.FAILED, TranscodeStatus.CANCELLED)
SEEN = (TranscodeStatus.PUBLISHED, TranscodeStatus.RETIRED)
"""Published now, or before."""
SHOWN = 20


def differ(one: Q, other: Q) -> Q:
    """One holds and the other does not."""
    return (one & ~other) | (~one & other)
