"""The streams: a page's mailbox as Server-Sent Events, for threads (WSGI) and for an event loop (ASGI)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse

from jobs import conf
from jobs.live.hub import Hub, TooManyPages, hub
from jobs.live.mailbox import Mailbox
from jobs.live.offers import LAST_EVENT_ID
from jobs.live.topic import Topic, encode

LONGEST = 15 * 60.0
"""A stream ends after so many seconds; the page connects again, and its permission is checked anew."""
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx passes each event on at once
    "Content-Encoding": "identity",  # nobody, such as GZipMiddleware, collects events to compress them
}


def stream(request: HttpRequest, topics: Sequence[Topic]) -> HttpResponseBase:
    """The answer of a view that has checked who asks. `Accept: application/json` gets the present state instead.

    At most LIVE_CONNECTIONS streams are open in a process; the next one gets a 503, and live.js asks for the state
    from time to time instead.
    """
    if request.method != "GET":
        return HttpResponse(status=405, headers={"Allow": "GET"})
    if "application/json" in request.headers.get("Accept", ""):
        state = {key: value for topic in topics for key, value in encode(topic.read()).items()}
        return HttpResponse(
            _body(state), content_type="application/json", headers={"Cache-Control": "no-store"}
        )
    last = request.headers.get("Last-Event-ID") or request.GET.get(LAST_EVENT_ID, "")
    kind = AsyncStream if isinstance(request, ASGIRequest) else SyncStream
    try:
        content = kind(hub, topics, last)
    except TooManyPages:
        return JsonResponse(
            {"error": "too_many_live_pages", "detail": "This process serves as many live pages as it may."},
            status=503,
            headers={"Retry-After": "10"},
        )
    return StreamingHttpResponse(content, content_type="text/event-stream", headers=_HEADERS)


def _body(state: dict[str, str]) -> str:
    """The values are JSON already."""
    return "{" + ", ".join(f"{json.dumps(key)}: {value}" for key, value in state.items()) + "}"


class _Stream(ABC):
    """What both kinds share: when an event, a heartbeat or the end is due."""

    def __init__(self, hub: Hub, topics: Sequence[Topic], last_event_id: str) -> None:
        self._hub = hub
        self._mailbox = Mailbox(topics, self._wake, last_event_id)
        self._began = time.monotonic()
        self._sent_at = float("-inf")
        settings = conf.current()
        self._heartbeat = settings.live_heartbeat.total_seconds()
        self._reconnect = settings.live_reconnect.total_seconds()
        hub.join(self._mailbox)

    @abstractmethod
    def _wake(self) -> None:
        """The mailbox has something; called from the hub's thread."""

    def close(self) -> None:
        """Called by the server when the page is gone, by Django when the response ends; more than once is fine."""
        self._hub.leave(self._mailbox)

    def _patience(self) -> float:
        return max(0.0, min(self._sent_at + self._heartbeat, self._began + LONGEST) - time.monotonic())

    def _next(self) -> bytes | None:
        """What is to be sent now; empty: nothing yet; None: the end."""
        now = time.monotonic()
        if self._mailbox.is_closed or now - self._began >= LONGEST:
            return None
        is_first = self._sent_at == float("-inf")
        version, state = self._mailbox.take()
        text = self._greeting() if is_first else ""
        if state:
            text += f"id: {version}\ndata: {_body(state)}\n\n"
        elif not is_first and now - self._sent_at >= self._heartbeat:
            text = ": heartbeat\nevent: beat\ndata: {}\n\n"  # live.js cannot see comments
        if text:
            self._sent_at = now
        return text.encode()

    def _greeting(self) -> str:
        """At once, so that the client sees that it is connected: how often it will hear something, and how long to wait
        before it connects again (live.js cannot read `retry`)."""
        beat = json.dumps({"every": self._heartbeat, "reconnect": self._reconnect})
        return f"retry: {math.ceil(self._reconnect * 1000)}\n\nevent: beat\ndata: {beat}\n\n"


class SyncStream(_Stream):
    """Holds a thread of the server while the page is open, but no database connection."""

    def __init__(self, hub: Hub, topics: Sequence[Topic], last_event_id: str) -> None:
        self._something = threading.Event()
        super().__init__(hub, topics, last_event_id)

    def _wake(self) -> None:
        self._something.set()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._sent_at == float("-inf"):
            _let_go_of_connections()
        while True:
            self._something.clear()
            part = self._next()
            if part is None:
                self.close()
                raise StopIteration
            if part:
                return part
            self._something.wait(self._patience())


class AsyncStream(_Stream):
    def __init__(self, hub: Hub, topics: Sequence[Topic], last_event_id: str) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._something = asyncio.Event()
        super().__init__(hub, topics, last_event_id)

    def _wake(self) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._something.set)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        self._loop = asyncio.get_running_loop()
        try:
            if self._sent_at == float("-inf"):
                await sync_to_async(_let_go_of_connections)()
            while True:
                self._something.clear()
                part = self._next()
                if part is None:
                    raise StopAsyncIteration
                if part:
                    return part
                with contextlib.suppress(TimeoutError):
                    # Not wait_for(): that of Python 3.11 forgets a cancellation when news come at the same moment.
                    async with asyncio.timeout(self._patience()):
                        await self._something.wait()
        except BaseException:  # the end, or the page is gone and the request is cancelled
            self.close()
            raise


def _let_go_of_connections() -> None:
    """The view has answered. Its thread may be kept for this page for a long time, and needs no database meanwhile."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
