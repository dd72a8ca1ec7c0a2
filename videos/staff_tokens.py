"""Tokens for scripts that act as a member of the staff: `Authorization: Bearer …`, issued by `manage.py stafftoken`.

A token is signed, not stored. It ends with its time, when its user may no longer sign in, or changes the password.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core import signing
from django.core.exceptions import ValidationError
from django.utils.crypto import constant_time_compare, salted_hmac

SALT = "videos.staff_token"
LONGEST = 500


def issue(user: Any, lifetime: timedelta) -> str:
    until = int(time.time() + lifetime.total_seconds())
    return signing.dumps([str(user.pk), until, _mark(user)], salt=SALT)


def user_of(token: str) -> Any:
    """The user whom a token stands for, or None."""
    try:
        user_id, until, mark = signing.loads(token, salt=SALT) if len(token) <= LONGEST else ("", 0, "")
        user = get_user_model()._default_manager.filter(pk=user_id).first() if until > time.time() else None
    except (signing.BadSignature, ValidationError, ValueError, TypeError):
        return None
    if user is None or not user.is_active or not constant_time_compare(mark, _mark(user)):
        return None
    return user


def _mark(user: Any) -> str:
    """Changes with the password."""
    return salted_hmac(SALT, user.get_session_auth_hash()).hexdigest()[:32]
