"""A client of Server-Sent Events, as plain as the protocol is."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit


class EventStream:
    """An open connection to a live page's source; a thread reads it. `state` is what a page would show now."""

    def __init__(self, address: str, *, cookie: str = "", headers: dict[str, str] | None = None) -> None:
        url = urlsplit(address)
        assert url.hostname
        self._connection = http.client.HTTPConnection(url.hostname, url.port, timeout=120)
        self._connection.request(
            "GET",
            url._replace(scheme="", netloc="").geturl(),
            headers={"Accept": "text/event-stream", "Cookie": cookie, **(headers or {})},
        )
        self._socket = self._connection.sock  # the response takes it over
        self.response = self._connection.getresponse()
        self.status = self.response.status
        self.state: dict[str, Any] = {}
        self.events: list[tuple[float, dict[str, Any]]] = []
        self.last_event_id = ""
        self.raw = ""
        self.ended = False
        if self.response.headers["Content-Type"] == "text/event-stream":
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for fields in self._blocks():
                self.last_event_id = fields.get("id", self.last_event_id)
                if fields.get("event", "message") == "message" and "data" in fields:
                    values = json.loads(fields["data"])
                    self.events.append((time.monotonic(), values))
                    self.state |= values
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass  # closed, by whichever side
        self.ended = True

    def _blocks(self) -> Iterator[dict[str, str]]:
        fields: dict[str, str] = {}
        while line := self.response.readline().decode():
            self.raw += line
            if line == "\n":
                yield fields
                fields = {}
            elif not line.startswith(":"):
                name, _, value = line.rstrip("\n").partition(":")
                fields[name] = value.removeprefix(" ")

    def body(self) -> Any:
        """Of an answer that is no stream."""
        return json.loads(self.response.read())

    def close(self) -> None:
        """As when a browser goes away: without a word."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._connection.close()


Connect = Callable[..., EventStream]
