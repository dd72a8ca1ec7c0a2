"""Tokens with which a script acts as a member of the staff: signed, with an end, and void when the password changes.

Nothing is stored. A token names the user and carries a digest of what Django's own sessions are bound to, so it dies
with them: when the password is changed, the user is deactivated or loses the staff flag, or the site's secret key is
replaced.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core import signing
from django.utils.crypto import constant_time_compare

from jobs.exceptions import BadValue

LONGEST = timedelta(days=366)
_SALT = "jobs.staff_tokens"
_LONGEST_TEXT = 1000


def issue(user: Any, lifetime: timedelta) -> str:
    """A token for this user. Raises ValueError for one that could not use it."""
    if not (user.is_active and user.is_staff):
        raise BadValue(f"{user.get_username()} is not an active member of the staff.", code="not_staff")
    if not timedelta(0) < lifetime <= LONGEST:
        raise BadValue(f"A token lasts at most {LONGEST.days} days.", code="bad_lifetime")
    seconds = int(lifetime.total_seconds())
    return signing.dumps([str(user.pk), seconds, _mark(user)], salt=_SALT)


def verify(token: str) -> Any:
    """The user, if the token is good now; None for anything else."""
    if len(token) > _LONGEST_TEXT:
        return None
    try:
        user_id, seconds, mark = signing.loads(token, salt=_SALT, max_age=LONGEST)
        signing.loads(token, salt=_SALT, max_age=seconds)
    except signing.BadSignature:
        return None
    user = get_user_model()._default_manager.filter(pk=user_id).first()
    if user is None or not (user.is_active and getattr(user, "is_staff", False)):
        return None
    return user if constant_time_compare(mark, _mark(user)) else None


def _mark(user: Any) -> str:
    return hashlib.sha256(user.get_session_auth_hash().encode()).hexdigest()[:32]
