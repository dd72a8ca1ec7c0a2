"""The way to Redis, where a site has one. Nobody waits for it: answers are due at once, and a dead Redis is left alone.

Who wants to tell Redis something calls `tell`. After a failure the fuse is blown: nobody tries, until a thread of its
own has had an answer. So the first to notice pays one short timeout, and nobody else anything.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jobs import conf
from jobs.exceptions import RedisMissing
from jobs.wakeup.fuse import Fuse

if TYPE_CHECKING:
    from redis import Redis

log = logging.getLogger("jobs.wakeup")

ANSWER_DUE = 0.2
"""Seconds for a connection, and for each answer, where somebody waits."""
SLOW = 0.05
"""An answer that took longer counts against Redis."""
BLOCK = 1.0
"""How long a listener waits in one command."""
SILENCE = 1.0
"""How much longer, before its connection is taken for dead."""
RECONNECT_CAP = 5.0
"""Listeners try again at least so often."""


class Link:
    """How a process tells Redis something."""

    def __init__(self, url: str, pool_size: int) -> None:
        self._client = _client(url, pool_size, answer_due=ANSWER_DUE)
        self._fuse = Fuse()
        self._lock = threading.Lock()
        self._probe: threading.Thread | None = None
        self._back_at = float("-inf")
        self._closed = threading.Event()

    def tell(self, action: Callable[[Redis], object]) -> bool:
        """False: it was not told. Never raises for Redis's sake."""
        from redis import RedisError

        if not self.may_tell():
            return False
        began = time.monotonic()
        try:
            action(self._client)
        except (RedisError, OSError) as error:
            self._blow(error)
            return False
        if time.monotonic() - began <= SLOW:
            self._fuse.answered()
        else:
            self._fuse.dawdled(time.monotonic())
            if self._fuse.is_blown:
                log.warning("Redis answers slowly; it is left alone for a while, jobs are found without it")
                self._ensure_probe()
        return True

    def may_tell(self) -> bool:
        """False: Redis was out of reach a moment ago and is left alone; whoever has something to tell can spare it."""
        if self._fuse.is_blown:
            self._ensure_probe()
            return False
        return True

    def answers(self) -> bool:
        """Whether it is there."""
        return self.tell(lambda client: client.ping())

    def may_be_unheard(self) -> bool:
        """Redis has been back for so short a time that some listener may not be."""
        return time.monotonic() - self._back_at < RECONNECT_CAP + ANSWER_DUE

    def close(self) -> None:
        self._closed.set()
        self._client.close()

    def _blow(self, error: Exception) -> None:
        with self._lock:
            first = not self._fuse.is_blown
            self._fuse.failed(time.monotonic())
        if first:
            log.warning("Redis is out of reach (%s); jobs are found without it", error)
        self._ensure_probe()

    def _ensure_probe(self) -> None:
        """A forked process inherits the blown fuse, but not the thread."""
        with self._lock:
            if self._probe is None or not self._probe.is_alive():
                self._probe = threading.Thread(target=self._try_again, name="redis-probe", daemon=True)
                self._probe.start()

    def _try_again(self) -> None:
        while not self._closed.wait(self._fuse.seconds_left(time.monotonic())):
            began = time.monotonic()
            try:
                self._client.ping()  # perhaps on a new connection, which takes longer
                began = time.monotonic()
                self._client.ping()
            except Exception:
                log.debug("Redis is still out of reach", exc_info=True)
                self._fuse.failed(time.monotonic())
                continue
            if time.monotonic() - began <= SLOW:
                self._back_at = time.monotonic()
                self._fuse.answered()
                log.info("Redis is back")
                return
            self._fuse.failed(time.monotonic())


_links: dict[tuple[str, int], Link] = {}
_links_lock = threading.Lock()


def link() -> Link:
    """This process's link to the Redis of the settings."""
    settings = conf.current()
    wanted = (settings.redis_url, settings.redis_pool_size)
    with _links_lock:
        if wanted not in _links:
            forget()
            _links[wanted] = Link(*wanted)
        return _links[wanted]


def forget() -> None:
    """The next one who needs Redis starts afresh."""
    for old in _links.values():
        old.close()
    _links.clear()


def key(name: str) -> str:
    """What Sprocket writes in Redis is all under one prefix."""
    return f"{conf.current().redis_prefix}:{name}"


def listening_client() -> Redis:
    """A connection of one's own, to wait on."""
    return _client(conf.current().redis_url, 1, answer_due=BLOCK + SILENCE)


def demand() -> None:
    """Mode `redis` promises wake-ups from the start: no worker enters without them."""
    from redis import RedisError

    client = listening_client()
    try:
        client.ping()
    except (RedisError, OSError) as error:
        raise RedisMissing(
            f"JOBS['QUEUE_MODE'] is 'redis', but Redis at {_place(client)} does not answer ({error}). "
            "Start it, or use the mode 'hybrid', which does without it meanwhile."
        ) from None
    finally:
        client.close()


def _place(client: Redis) -> str:
    """Where it should be, without user and password."""
    given = client.connection_pool.connection_kwargs
    return str(given["path"] if "path" in given else f"{given.get('host')}:{given.get('port', 6379)}")


def _client(url: str, pool_size: int, *, answer_due: float) -> Redis:
    from redis import BlockingConnectionPool, Redis
    from redis.backoff import NoBackoff
    from redis.connection import parse_url
    from redis.retry import Retry

    ours: dict[str, Any] = {  # whatever the URL says
        "max_connections": pool_size,
        "timeout": answer_due,
        "socket_timeout": answer_due,
        "socket_connect_timeout": answer_due,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,  # with 3, redis-py lengthens timeouts on a word of the server
    }
    given = parse_url(url)  # type: ignore[no-untyped-call]
    return Redis(connection_pool=BlockingConnectionPool(**{**given, **ours}))  # type: ignore[no-untyped-call]
