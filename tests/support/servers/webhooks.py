"""The other side of an alert: a real server that writes down what arrives and answers as badly as it is told to."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Behaviour = Callable[[socket.socket, threading.Event], None]


def answers(text: str) -> Behaviour:
    """`answers("204 No Content")`, with headers after `\\r\\n`."""

    def answer(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(f"HTTP/1.1 {text}\r\nContent-Length: 0\r\n\r\n".encode())

    return answer


OK = answers("200 OK")


@dataclass(frozen=True)
class Request:
    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Webhook:
    listener: socket.socket
    behave: Behaviour = OK
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    """Which host the clients asked for, in TLS."""
    connections: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def url(self, path: str = "/hook/secret-path") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._handle, args=[connection], daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.settimeout(30)
            if self.tls is not None:
                self.tls.sni_callback = lambda _, name, __: self.names.append(name)
                connection = self.tls.wrap_socket(connection, server_side=True)
            self.requests.append(_read(connection))
            self.behave(connection, self.over)
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
            connection.close()


def _read(connection: socket.socket) -> Request:
    received = b""
    while b"\r\n\r\n" not in received:
        if not (piece := connection.recv(65536)):
            raise OSError("nothing asked")
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    line, *rest = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (text.partition(": ") for text in rest)}
    while len(body) < int(headers["content-length"]):
        body += connection.recv(65536)
    return Request(line, headers, body)


@contextlib.contextmanager
def serving(**options: Any) -> Iterator[Webhook]:
    listener = socket.create_server(("127.0.0.1", 0))
    webhook = Webhook(listener, **options)
    threading.Thread(target=webhook.serve, daemon=True).start()
    try:
        yield webhook
    finally:
        webhook.over.set()
        # Closing alone does not wake the thread that accepts.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


class Resolver:
    """Answers differently every time it is asked, as a hostile name server would."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, *args: Any, **options: Any) -> list[Any]:
        self.asked.append(host)
        addresses = self.answers.pop(0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]
