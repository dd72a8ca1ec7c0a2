"""Keys of remote workers: issue, verify, revoke. 256 bits; stored are the SHA-256 and the first characters."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from datetime import timedelta
from enum import StrEnum
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now

from jobs import database
from jobs.models import Worker, WorkerKey
from jobs.models.worker_key import PREFIX_LENGTH
from jobs.payloads import storable

_KEY_BYTES = 32
_FORM = re.compile(r"[A-Za-z0-9_-]{43}")
"""32 bytes in URL-safe base 64."""
_USE_NOTED_EVERY = timedelta(minutes=1)


def issue(worker: Worker, *, actor: str = "", lifetime: timedelta | None = None) -> tuple[WorkerKey, str]:
    """A further key for this worker: its record, and the key itself, which nobody can read again."""
    key = secrets.token_urlsafe(_KEY_BYTES)
    record: WorkerKey = WorkerKey.objects.create(
        worker=worker,
        prefix=key[:PREFIX_LENGTH],
        sha256=_digest(key),
        created_by=storable(actor)[:200],
        expires_at=None if lifetime is None else database.now_plus(lifetime),
    )
    record.refresh_from_db()
    return record, key


class Verdict(StrEnum):
    USABLE = "usable"
    UNKNOWN = "unknown"
    REVOKED = "revoked"
    EXPIRED = "expired"


def verify(key: str) -> WorkerKey | None:
    """The record of this key with its worker, if it is usable now; notes its use. None for anything else."""
    record, verdict = examine(key)
    return record if verdict is Verdict.USABLE else None


def examine(key: str) -> tuple[WorkerKey | None, Verdict]:
    """The record of this key with its worker, and whether it opens anything now; its use is noted if it does.

    One statement, but for the first use in a minute. Who holds a key that was revoked may know that it was.
    """
    record = _find(key)
    if record is None:
        return None, Verdict.UNKNOWN
    if record.revoked_at is not None:
        return record, Verdict.REVOKED
    if record.is_expired:
        return record, Verdict.EXPIRED
    if record.use_is_due:
        WorkerKey.objects.filter(_use_is_due(), pk=record.pk).update(last_used_at=Now())
    return record, Verdict.USABLE


def _find(key: str) -> Any:
    if not _FORM.fullmatch(key):
        return None
    expired = ExpressionWrapper(Q(expires_at__lte=Now()), output_field=BooleanField())
    due = ExpressionWrapper(_use_is_due(), output_field=BooleanField())
    candidates = WorkerKey.objects.filter(prefix=key[:PREFIX_LENGTH]).select_related("worker")
    digest, found = _digest(key), None
    for candidate in candidates.annotate(is_expired=expired, use_is_due=due):
        if hmac.compare_digest(candidate.sha256, digest):
            found = candidate
    return found


def _use_is_due() -> Q:
    return Q(last_used_at__isnull=True) | Q(last_used_at__lt=database.now_minus(_USE_NOTED_EVERY))


def revoke(key_ids: list[int], *, actor: str = "") -> list[int]:
    """These keys open nothing any more, from this moment on. Returns those that did until now."""
    with database.atomic():
        live = WorkerKey.objects.filter(pk__in=key_ids, revoked_at__isnull=True).select_for_update()
        ids = list(live.values_list("pk", flat=True))
        WorkerKey.objects.filter(pk__in=ids).update(revoked_at=Now(), revoked_by=storable(actor)[:200])
    return ids


def revoke_all(worker: Worker, *, actor: str = "") -> list[WorkerKey]:
    """No key of this worker opens anything any more. Returns those that did until now."""
    keys = {key.pk: key for key in WorkerKey.objects.usable().filter(worker=worker)}
    return [keys[key_id] for key_id in revoke(list(keys), actor=actor)]


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
