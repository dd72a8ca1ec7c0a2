"""Telling open pages that something has changed: through Redis or on PostgreSQL; SQLite tells them by itself."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from django.db import Error as DatabaseError
from django.dispatch import receiver

from jobs import conf, database
from jobs.signals import jobs_changed

log = logging.getLogger("jobs.live")

CHANNEL = "jobs_live"
COALESCE_SECONDS = 0.25
"""A process sends at most one hint in this time, however many jobs it claims and completes."""

_lock = threading.Lock()
_last_sent = float("-inf")


@receiver(jobs_changed)
def _jobs_changed(**kwargs: Any) -> None:
    hint_on_commit()


def hint_on_commit() -> None:
    """Pages look again once the current transaction has committed."""
    if database.is_postgres() or conf.current().queue_mode != "database":
        database.on_commit(_send)


def _send() -> None:
    global _last_sent
    with _lock:
        if time.monotonic() - _last_sent < COALESCE_SECONDS:
            return
        _last_sent = time.monotonic()
    try:
        mode = conf.current().queue_mode
        told = mode != "database" and _publish()
        if not told and mode != "redis" and database.is_postgres():
            with database.connection().cursor() as cursor:
                cursor.execute(f"NOTIFY {CHANNEL}")
    except DatabaseError as error:
        log.warning("could not send a hint to live pages (%s); they look again in a few seconds", error)
    except Exception:
        log.warning("could not send a hint to live pages; they look again in a few seconds", exc_info=True)


def _publish() -> bool:
    from jobs.wakeup import redis_link, streams

    return redis_link.link().tell(lambda client: client.publish(redis_link.key(streams.LIVE), 1))
