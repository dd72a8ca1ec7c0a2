"""One alert per kind and RATE_LIMIT, whoever in the fleet noticed; the row of the kind is the lock and the memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F

from jobs import conf, database, payloads
from jobs.alerts.wording import ABOUT_ALERTS, Kind, shorten_facts
from jobs.lifecycle.enqueueing import insert, make_terms
from jobs.lifecycle.writing import Draft
from jobs.models import AlertKind
from jobs.ulid import new_ulid


def is_wanted(*kinds: Kind) -> bool:
    """Alerts are on, and at least one of these kinds is chosen."""
    settings = conf.current()
    return bool(settings.alert_webhook_url) and not settings.alert_kinds.isdisjoint(kinds)


def send(kind: Kind, facts: Mapping[str, Any], *, others: int = 0) -> bool:
    """Enqueue an alert, unless its kind is not wanted or one of it was sent lately. `others`: so many more happened at
    the same moment."""
    return is_wanted(kind) and database.when_unlocked(lambda: _send(kind, facts, others))


def _limited_as(kind: Kind, facts: Mapping[str, Any]) -> str:
    """That no worker is left is told even if the loss of another one was told a moment ago: nobody else will be lost,
    and so nothing else would ever say it."""
    return f"{kind}.last" if kind is Kind.WORKER_OFFLINE and facts.get("left") == 0 else str(kind)


def _send(kind: Kind, facts: Mapping[str, Any], others: int) -> bool:
    limited_as = _limited_as(kind, facts)
    with database.atomic():
        AlertKind.objects.bulk_create([AlertKind(kind=limited_as)], ignore_conflicts=True)
        row = AlertKind.objects.select_for_update().get(pk=limited_as)
        now = database.read_clock()
        if not is_due(row.sent_at, now, conf.current().alert_rate_limit):
            row.suppressed += 1 + others
            row.suppressed_since += 1 + others
            row.save(update_fields=["suppressed", "suppressed_since"])
            return False
        _enqueue(kind, facts, now, held_back=row.suppressed_since + others)
        row.sent, row.sent_at, row.suppressed_since = row.sent + 1, now, 0
        row.save(update_fields=["sent", "sent_at", "suppressed_since"])
    return True


def is_due(sent_at: datetime | None, now: datetime, limit: timedelta) -> bool:
    """A clock may be set back: then the last one was not lately."""
    return sent_at is None or not timedelta(0) <= now - sent_at < limit


def _enqueue(kind: Kind, facts: Mapping[str, Any], now: datetime, *, held_back: int) -> None:
    """Whatever the queue's depth: that it is full is one of the things to be told."""
    payload = {
        "kind": str(kind),
        "facts": {name: _storable(value) for name, value in shorten_facts(facts).items()},
        "at": now.isoformat(timespec="seconds"),
        "held_back": held_back,
    }
    insert(make_terms(ABOUT_ALERTS, priority="high"), Draft(new_ulid(), payloads.encode_payload(payload)))


def _storable(value: Any) -> Any:
    return payloads.storable(value) if isinstance(value, str) else value


def note_undelivered(kind: str) -> None:
    AlertKind.objects.filter(pk=kind).update(undelivered=F("undelivered") + 1)
