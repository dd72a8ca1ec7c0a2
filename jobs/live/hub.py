"""The hub: one thread per web process that reads topics for all open pages. It lives while there is an open page."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from dataclasses import dataclass, field

from django.db import connections

from jobs import conf
from jobs.live.mailbox import Mailbox
from jobs.live.sources import Alarm, Source, make_source
from jobs.live.topic import Topic, changes, encode, version_of

log = logging.getLogger("jobs.live")

LOOK_ANYWAY = 5.0
"""A topic is read after so many seconds even if nobody said that anything has changed."""
HINTS_KEPT_BACK = 0.3
"""Whoever sends hints coalesces them for less than this: what was kept back is found by one more look."""
FIRST_STATE_WITHIN = 0.5
"""A page that has just been opened does not wait longer for a topic that is otherwise read rarely."""
ABANDONED_BEATS = 3
"""A page whose server has taken nothing for as long as so many heartbeats is gone, though nobody said so."""
_PATIENCE_FIRST, _PATIENCE_CAP = 0.5, 10.0


class TooManyPages(Exception):
    """This process serves as many live pages as it may."""


@dataclass
class _Channel:
    """A topic with the pages that look at it, and its state as it was read last."""

    topic: Topic
    mailboxes: set[Mailbox] = field(default_factory=set)
    newcomers: set[Mailbox] = field(default_factory=set)
    """Those that nothing was read for yet."""
    state: dict[str, str] = field(default_factory=dict)
    version: str = ""
    read_at: float = float("-inf")
    took: float = 0.0

    def due_at(self, hinted_at: float) -> float:
        """The next reading: soon after a hint, but never more often than the topic wants or its reading allows."""
        every = min(self.topic.every, FIRST_STATE_WITHIN) if self.newcomers else self.topic.every
        earliest = self.read_at + max(every, 2 * self.took)
        if self.newcomers:
            return earliest
        is_stale = self.read_at < hinted_at + HINTS_KEPT_BACK
        return earliest if is_stale else max(earliest, self.read_at + LOOK_ANYWAY)


class Hub:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channels: dict[str, _Channel] = {}
        self._mailboxes: set[Mailbox] = set()
        self._alarm: Alarm | None = None
        self._hinted_at = float("-inf")

    @property
    def pages(self) -> int:
        return len(self._mailboxes)

    @property
    def is_running(self) -> bool:
        return self._alarm is not None

    def join(self, mailbox: Mailbox) -> None:
        """From now on the mailbox gets the state of its topics. The first one is read for it, unless the page has the
        last one from before a lost connection: what was read earlier may be older than the page, which would step
        back for a moment and take a button from under somebody's finger."""
        with self._lock:
            if len(self._mailboxes) >= conf.current().live_connections:
                raise TooManyPages
            self._mailboxes.add(mailbox)
            for topic in mailbox.topics:
                channel = self._channels.setdefault(topic.name, _Channel(topic))
                channel.mailboxes.add(mailbox)
                if channel.version and mailbox.has(topic, channel.version):
                    mailbox.put(topic, channel.version, channel.state, channel.state)
                else:
                    channel.newcomers.add(mailbox)
            if self._alarm is None:
                self._alarm = Alarm()
                threading.Thread(target=self._run, args=[self._alarm], name="live-hub", daemon=True).start()
            else:
                self._alarm.ring()

    def leave(self, mailbox: Mailbox) -> None:
        with self._lock:
            self._mailboxes.discard(mailbox)
            for topic in mailbox.topics:
                channel = self._channels.get(topic.name)
                if channel is None:
                    continue
                channel.mailboxes.discard(mailbox)
                channel.newcomers.discard(mailbox)
                if not channel.mailboxes:
                    del self._channels[topic.name]
            if not self._mailboxes and self._alarm is not None:
                alarm, self._alarm = self._alarm, None  # that thread ends; the next page starts another
                alarm.ring()
        mailbox.close()

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self, alarm: Alarm) -> None:
        patience = _PATIENCE_FIRST
        try:
            while self._alarm is alarm:
                began = time.monotonic()
                try:
                    self._listen(make_source(), alarm)
                except Exception as error:
                    if time.monotonic() - began > _PATIENCE_CAP:  # it worked until now
                        patience = _PATIENCE_FIRST
                    log.warning("live pages stand still (%s); trying again in %.1f s", error, patience)
                    connections.close_all()
                    alarm.wait(patience)
                    patience = min(_PATIENCE_CAP, patience * 2)
        finally:
            connections.close_all()
            with self._lock:  # whoever rings has the lock
                alarm.close()

    def _listen(self, source: Source, alarm: Alarm) -> None:
        """Until nobody looks any more. Raises when the database is out of reach."""
        source.open()
        self._hinted_at = time.monotonic()  # whatever happened while nobody listened
        with contextlib.closing(source):
            while self._alarm is alarm:
                self._drop_abandoned()
                for channel in self._due():
                    self._read(channel)
                if source.wait(self._pause(), alarm):
                    self._hinted_at = time.monotonic()

    def _drop_abandoned(self) -> None:
        limit = time.monotonic() - ABANDONED_BEATS * conf.current().live_heartbeat.total_seconds()
        with self._lock:
            abandoned = [mailbox for mailbox in self._mailboxes if mailbox.taken_at < limit]
        for mailbox in abandoned:
            self.leave(mailbox)

    def _due(self) -> list[_Channel]:
        now = time.monotonic()
        with self._lock:
            return [channel for channel in self._channels.values() if channel.due_at(self._hinted_at) <= now]

    def _pause(self) -> float:
        with self._lock:
            moments = [channel.due_at(self._hinted_at) for channel in self._channels.values()]
        return max(0.0, min(moments) - time.monotonic()) if moments else LOOK_ANYWAY

    def _read(self, channel: _Channel) -> None:
        began = time.monotonic()
        try:
            state = encode(channel.topic.read())
        except Exception:
            if not connections_are_usable():
                raise
            log.exception(
                "the live topic %s cannot be read",
                channel.topic.name,
                extra={"code": "topic_unreadable", "topic": channel.topic.name},
            )
            state = channel.state
        version = version_of(state)
        with self._lock:
            changed = changes(channel.state, state)
            channel.state, channel.version, channel.read_at = state, version, began
            channel.took = time.monotonic() - began
            channel.newcomers = {mailbox for mailbox in channel.newcomers if mailbox.made_at > began}
            for mailbox in channel.mailboxes - channel.newcomers:
                mailbox.put(channel.topic, version, state, changed)


def connections_are_usable() -> bool:
    return all(conn.is_usable() for conn in connections.all(initialized_only=True) if conn.connection)


hub = Hub()
