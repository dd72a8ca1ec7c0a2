"""Keys of remote workers: issue, verify, revoke. 256 bits; stored are the SHA-256 and the first characters."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from datetime import timedelta
from enum import StrEnum
from typing import Any

from django.db.models import BooleanField, DateTimeField, Field, JSONField, Q
from django.db.models.functions import Now

from jobs import database
from jobs.models import Worker, WorkerKey, WorkerStatus
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


def verify(key: str) -> Worker | None:
    """The worker that this key belongs to, if it is usable now; notes its use. None for anything else."""
    return examine(key)[0]


def examine(key: str) -> tuple[Worker | None, Verdict]:
    """The worker whose usable key this is, and whether it opens anything now; its use is noted if it does.

    One statement, but for the first use in a minute. Who holds a key that was revoked may know that it was.
    """
    found = _find(key)
    if found is None:
        return None, Verdict.UNKNOWN
    key_id, is_revoked, is_expired, use_is_due, *columns = found
    if is_revoked:
        return None, Verdict.REVOKED
    if is_expired:
        return None, Verdict.EXPIRED
    if use_is_due:
        WorkerKey.objects.filter(_use_is_due(), pk=key_id).update(last_used_at=Now())
    return _as_worker(columns), Verdict.USABLE


def _find(key: str) -> list[Any] | None:
    """What is known of this key, then its worker's columns. Written by hand: Django takes longer to compose this
    statement, for each request anew, than it takes to run."""
    if not _FORM.fullmatch(key):
        return None
    columns = ", ".join(f"w.{field.column}" for field in Worker._meta.concrete_fields)
    rows = database.fetch(
        f"""
        SELECT k.sha256, k.id, k.revoked_at IS NOT NULL, coalesce(k.expires_at <= {database.now_sql()}, false),
               k.last_used_at IS NULL OR k.last_used_at < {database.earlier_sql()}, {columns}
        FROM jobs_workerkey k JOIN jobs_worker w ON w.id = k.worker_id WHERE k.prefix = %s
        """,
        [_USE_NOTED_EVERY.total_seconds(), key[:PREFIX_LENGTH]],
    )
    digest, found = _digest(key), None
    for sha256, *rest in rows:
        if hmac.compare_digest(sha256, digest):
            found = rest
    return found


def _as_worker(columns: list[Any]) -> Worker:
    fields = Worker._meta.concrete_fields
    values = [_python_value(field, value) for field, value in zip(fields, columns, strict=True)]
    return Worker.from_db(database.alias(), [field.attname for field in fields], values)


def _python_value(field: Field[Any, Any], value: Any) -> Any:
    if value is None:
        return None
    if isinstance(field, JSONField):
        return json.loads(value)
    if isinstance(field, BooleanField):
        return bool(value)
    return database.moment(value) if isinstance(field, DateTimeField) else value


def _use_is_due() -> Q:
    return Q(last_used_at__isnull=True) | Q(last_used_at__lt=database.now_minus(_USE_NOTED_EVERY))


def revoke(key_ids: list[int], *, actor: str = "") -> list[int]:
    """These keys open nothing any more, from this moment on. Returns those that did until now.

    A worker that is left without a usable key is offline at once.
    """
    with database.atomic():
        owners = set(WorkerKey.objects.filter(pk__in=key_ids).values_list("worker_id", flat=True))
        # First of all, since heartbeats and claims lock their worker's row before they look at anything else.
        list(
            Worker.objects.filter(pk__in=owners)
            .order_by("pk")
            .select_for_update(no_key=True)
            .values_list("pk")
        )
        live = WorkerKey.objects.filter(pk__in=key_ids, revoked_at__isnull=True).select_for_update()
        ids = list(live.values_list("pk", flat=True))
        WorkerKey.objects.filter(pk__in=ids).update(revoked_at=Now(), revoked_by=storable(actor)[:200])
        Worker.objects.filter(pk__in=owners).revoked().update(status=WorkerStatus.OFFLINE)
    return ids


def revoke_all(worker: Worker, *, actor: str = "") -> list[WorkerKey]:
    """No key of this worker opens anything any more. Returns those that did until now."""
    keys = {key.pk: key for key in WorkerKey.objects.usable().filter(worker=worker)}
    return [keys[key_id] for key_id in revoke(list(keys), actor=actor)]


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
