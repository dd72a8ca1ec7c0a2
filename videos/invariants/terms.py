"""What the rules have in common."""

from __future__ import annotations

from django.db.models import Q

from videos.statuses import ENDED, SEEN

__all__ = ["ENDED", "SEEN", "SHOWN", "differ"]

SHOWN = 20


def differ(one: Q, other: Q) -> Q:
    """One holds and the other does not."""
    return (one & ~other) | (~one & other)
