"""How many uploads one user may begin in a minute, whichever way they take. All web processes count together."""

from __future__ import annotations

from typing import Any

from jobs import throttle
from jobs.exceptions import TooManyTries
from jobs.rate_limits import Limit
from jobs.refusal import too_many_tries
from videos import conf


def take(user: Any) -> None:
    """One upload of this user. Raises a Refusal (429) when there were too many."""
    try:
        throttle.take_as(Limit("uploads", conf.current().upload_rate), f"user {user.pk}")
    except TooManyTries as error:
        raise too_many_tries(error) from error
