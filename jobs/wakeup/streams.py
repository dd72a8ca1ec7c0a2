"""Wake-ups through Redis: a stream for each lane of priorities, read by consumer groups.

Workers that can run the same jobs are a *crew* and share a group: a hint wakes one of them, one that has room. It
looks into the database, and only then acknowledges the hint. If it found as much as it could take, there may be more:
it passes the hint on. A hint that nobody acknowledges, because its worker died or may not claim, is taken over by
another of the crew.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from jobs.priorities import labels
from jobs.wakeup.redis_link import BLOCK, key, link
from jobs.wakeup.redis_listener import Listener

if TYPE_CHECKING:
    from redis import Redis

LANES = ("high", "normal", "low")
LONGEST = 1000
"""Hints a stream holds, about: Redis removes whole blocks of old ones."""
ABANDONED_AFTER = 3.0
"""Seconds after which a hint that was read and not acknowledged is somebody else's."""
TIDY_EVERY = 600.0
GONE_AFTER = 3600.0
"""A reader that has not asked for so long is forgotten, and its crew when it was the last one."""
_AT_ONCE = 64
_EMPTIED = ("NOGROUP", "UNBLOCKED", "no such key")
"""How Redis says, depending on version and command, that somebody has emptied it."""

LIVE = "live"
"""The channel of live pages: a job that can be claimed is news to them, too."""


def lane_of(priority: int | None) -> str:
    """None: the caller does not know how urgent it is."""
    number = labels()
    if priority is None or number["normal"] <= priority < number["low"]:
        return "normal"
    return "high" if priority < number["normal"] else "low"


def publish(lane: str) -> bool:
    """False: Redis was not told, or has been back so shortly that workers may not listen to it again."""

    def add(client: Redis) -> None:
        with client.pipeline(transaction=False) as both:
            both.xadd(stream(lane), {"look": 1}, maxlen=LONGEST)
            both.publish(key(LIVE), 1)
            both.execute()

    return link().tell(add) and not link().may_be_unheard()


def stream(lane: str) -> str:
    return key(f"wakeup:{lane}")


class StreamEar(Listener):
    what = "new jobs"

    def __init__(self, on_hint: Callable[[], None], crew: Collection[str]) -> None:
        super().__init__("stream-ear")
        self._on_hint = on_hint
        self._group = f"crew-{hashlib.blake2b(','.join(sorted(crew)).encode(), digest_size=6).hexdigest()}"
        self._reader = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._changed = threading.Condition()
        self._has_room = False
        self._looked_at = float("-inf")
        self._next_round = 0.0
        self._next_tidying = 0.0

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        with self._changed:
            self._changed.notify()

    def looked(self, *, asked: int, got: int, at: float) -> None:
        """The worker has asked the database for so many jobs, from this moment of its stopwatch on."""
        with self._changed:
            had_room, self._has_room = self._has_room, got < asked
            self._looked_at = at
            if had_room or self._has_room:
                self._changed.notify()

    # -- the thread --------------------------------------------------------------------------------------------------

    def _listen(self, client: Redis) -> None:
        from redis import ResponseError

        self._join(client)
        self._connected()
        while self._until(lambda: self._has_room):
            try:
                hints = self._read(client) or self._take_over(client)
                if hints:
                    self._serve(client, hints)
                self._tidy(client)
            except ResponseError as error:
                if not any(word in str(error) for word in _EMPTIED):
                    raise
                self._join(client)
        for lane in LANES:
            client.xgroup_delconsumer(stream(lane), self._group, self._reader)

    def _until(self, condition: Callable[[], bool]) -> bool:
        """False: the worker stops."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping.is_set() or condition())
        return not self._stopping.is_set()

    def _join(self, client: Redis) -> None:
        """Hints from now on. What was announced before, the worker finds by looking."""
        from redis import ResponseError

        for lane in LANES:
            try:
                client.xgroup_create(stream(lane), self._group, id="$", mkstream=True)
            except ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise
            client.xgroup_createconsumer(stream(lane), self._group, self._reader)
        self._on_hint()

    def _read(self, client: Redis) -> list[tuple[str, Any]]:
        found: Any = client.xreadgroup(
            self._group,
            self._reader,
            {stream(lane): ">" for lane in LANES},
            count=_AT_ONCE,
            block=int(BLOCK * 1000),
        )
        return [(name.decode(), hint) for name, hints in found or [] for hint, _ in hints]

    def _take_over(self, client: Redis) -> list[tuple[str, Any]]:
        if time.monotonic() < self._next_round:
            return []
        self._next_round = time.monotonic() + ABANDONED_AFTER / 2
        hints: list[tuple[str, Any]] = []
        for lane in LANES:
            idle = int(ABANDONED_AFTER * 1000)
            found: Any = client.xautoclaim(
                stream(lane), self._group, self._reader, idle, count=_AT_ONCE, justid=True
            )
            hints += [(stream(lane), hint) for hint in found]
        return hints

    def _serve(self, client: Redis, hints: list[tuple[str, Any]]) -> None:
        """Let the worker look, then acknowledge. A worker that is full, or stops, leaves it to another."""
        read_at = time.monotonic()
        self._on_hint()
        done = self._until(lambda: not self._has_room or self._looked_at >= read_at)
        with client.pipeline(transaction=False) as answer:
            for name in {name for name, _ in hints}:
                if not (done and self._has_room):
                    answer.xadd(name, {"look": 1}, maxlen=LONGEST)
                answer.xack(name, self._group, *(hint for at, hint in hints if at == name))
            answer.execute()

    def _tidy(self, client: Redis) -> None:
        """Forget readers that are gone for long, and crews without readers. Who is forgotten too early joins anew."""
        if time.monotonic() < self._next_tidying:
            return
        self._next_tidying = time.monotonic() + TIDY_EVERY
        for lane in LANES:
            groups: Any = client.xinfo_groups(stream(lane))
            for group in groups:
                readers: Any = client.xinfo_consumers(stream(lane), group["name"])
                gone = [reader["name"] for reader in readers if reader["idle"] > GONE_AFTER * 1000]
                for name in gone:
                    client.xgroup_delconsumer(stream(lane), group["name"], name)
                if len(gone) == len(readers) and group["name"].decode() != self._group:
                    client.xgroup_destroy(stream(lane), group["name"])
