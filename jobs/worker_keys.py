"""Keys of remote workers: issue, verify, revoke. 256 bits; stored are the SHA-256 and the first characters."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from datetime import timedelta

from django.db.models import Q
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


def verify(key: str) -> WorkerKey | None:
    """The record of this key with its worker, if it is usable now; notes its use. None for anything else."""
    if not _FORM.fullmatch(key):
        return None
    digest, found = _digest(key), None
    for candidate in WorkerKey.objects.usable().filter(prefix=key[:PREFIX_LENGTH]).select_related("worker"):
        if hmac.compare_digest(candidate.sha256, digest):
            found = candidate
    if found is not None:
        noted = WorkerKey.objects.filter(
            Q(last_used_at__isnull=True) | Q(last_used_at__lt=database.now_minus(_USE_NOTED_EVERY)),
            pk=found.pk,
        )
        noted.update(last_used_at=Now())
    return found


def revoke(key_ids: list[int], *, actor: str = "") -> list[int]:
    """These keys open nothing any more, from this moment on. Returns those that did until now."""
    with database.atomic():
        live = WorkerKey.objects.filter(pk__in=key_ids, revoked_at__isnull=True).select_for_update()
        ids = list(live.values_list("pk", flat=True))
        WorkerKey.objects.filter(pk__in=ids).update(revoked_at=Now(), revoked_by=storable(actor)[:200])
    return ids


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
