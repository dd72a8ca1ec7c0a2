"""Messages on Redis channels for subscribers outside Sprocket, in the modes `redis` and `hybrid` (docs/redis.md).

The queue never waits for them. A commit leaves a note of what has changed; a thread of this process reads the state
from the database and publishes it. Notes about the same thing become one message; while Redis is away there is none.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import connections
from django.dispatch import receiver

from jobs import conf, database
from jobs.models import Job, Worker
from jobs.signals import workers_changed

if TYPE_CHECKING:
    from redis import Redis

log = logging.getLogger("jobs.live")

WORKER_STATUS = "worker_status"
PAUSE = 0.25
"""Seconds between two messages about the same thing, at least."""
LINGER = 2.0
"""The thread ends, and with it its database connection, when nothing has happened for this long."""
FLUSH_WITHIN = 1.0

Message = tuple[str, Mapping[str, Any]]
"""A channel, and the body, which is published as JSON."""
Read = Callable[[], Iterable[Message]]


def publish_on_commit(subject: str, read: Read) -> None:
    """Publish what `read` returns, soon after the current transaction has committed. It runs in another thread.

    `subject` says what it is about: of several notes about the same subject the last one counts.
    """
    if conf.current().queue_mode != "database":
        database.on_commit(partial(_outbox.put, subject, read))


def flush() -> None:
    """Before the process ends: give the thread a moment for what it has not published yet."""
    _outbox.flush(FLUSH_WITHIN)


class Outbox:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._notes: dict[str, Read] = {}
        self._is_sending = False
        self._is_hurried = False
        self._thread: threading.Thread | None = None

    def put(self, subject: str, read: Read) -> None:
        with self._changed:
            self._notes[subject] = read
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="redis-channels", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the interpreter ends
                    return
                self._thread = thread
            self._changed.notify_all()

    def flush(self, seconds: float) -> None:
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._notes and not self._is_sending, timeout=seconds)
            self._is_hurried = False

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while notes := self._take():
                _publish(list(notes.values()))
                self._rest()
        finally:
            connections.close_all()

    def _take(self) -> dict[str, Read]:
        """What there is to publish; empty: nothing for a while, and the thread has to end."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._notes), timeout=LINGER)
            notes, self._notes = self._notes, {}
            self._is_sending = bool(notes)
            if not notes:
                self._thread = None
            return notes

    def _rest(self) -> None:
        with self._changed:
            self._is_sending = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_hurried, timeout=PAUSE)


def _publish(reads: list[Read]) -> None:
    from jobs.wakeup.redis_link import link

    if not link().may_tell():
        return
    messages: list[Message] = []
    for read in reads:
        try:
            messages += read()
        except Exception as error:
            log.warning(
                "a message for subscribers was dropped (%s)", error, extra={"code": "message_dropped"}
            )
            connections.close_all()
    if messages:
        link().tell(partial(_send, messages))


def _send(messages: list[Message], client: Redis) -> None:
    prefix = conf.current().redis_channel_prefix
    with client.pipeline(transaction=False) as together:
        for channel, body in messages:
            together.publish(f"{prefix}{channel}", json.dumps(body, cls=DjangoJSONEncoder))
        together.execute()


_outbox = Outbox()


def _start_over() -> None:
    """A forked process has neither the thread nor its notes, which the parent publishes."""
    global _outbox
    _outbox = Outbox()


os.register_at_fork(after_in_child=_start_over)


# -- workers -----------------------------------------------------------------------------------------------------------


@receiver(workers_changed)
def _workers_changed(worker_ids: Collection[str], **kwargs: Any) -> None:
    for worker_id in worker_ids:
        publish_on_commit(f"worker:{worker_id}", partial(_read_worker, worker_id))


def _read_worker(worker_id: str) -> Iterable[Message]:
    worker = Worker.objects.filter(pk=worker_id).first()
    if worker is None:
        return
    held = Job.objects.leased().filter(worker=worker).order_by("claimed_at", "pk")
    jobs = list(held.values_list("pk", flat=True))
    body = {
        "worker_id": worker.pk,
        "worker_name": worker.name,
        "worker_type": worker.kind,
        "status": worker.state,
        "current_job_id": jobs[0] if jobs else None,
        "current_job_ids": jobs,
        "last_heartbeat": worker.last_heartbeat,
    }
    yield WORKER_STATUS, body
