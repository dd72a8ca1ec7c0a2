"""One POST, and nothing that the other side does can keep or hurt the worker.

The name is resolved once, every address it stands for is judged, and the connection goes to a judged address, while
certificate and Host are those of the name. One deadline covers all of it, also the resolving. Redirects are not
followed, and of the answer only the head is read. No message of an error contains the URL: its path is a secret.
"""

from __future__ import annotations

import queue
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from datetime import timedelta

from jobs.alerts.addresses import refusal
from jobs.alerts.target import Target

_LARGEST_HEAD = 32 * 1024


class DeliveryFailed(Exception):
    """It did not arrive; trying again may help. `code` says why, for programs; the text is for people."""

    def __init__(
        self, message: str, *, code: str, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        """What the endpoint answered, if it did."""
        self.retry_after = retry_after


class DeliveryRefused(DeliveryFailed):
    """It did not arrive, and trying again would not help."""


class _Deadline:
    def __init__(self, timeout: timedelta) -> None:
        self._end = time.monotonic() + timeout.total_seconds()

    def left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def post(
    url: str, body: bytes, *, headers: Mapping[str, str], timeout: timedelta, allow_private: bool
) -> int:
    """The status of the answer, which is one of success; anything else raises DeliveryFailed."""
    target, deadline = Target.parse(url), _Deadline(timeout)
    try:
        addresses = _permitted(_resolve(target, deadline), allow_private=allow_private)
        with _connected(target, addresses, deadline) as connection:
            connection.settimeout(deadline.left())
            connection.sendall(_request(target, body, headers))
            head = _read_head(connection, deadline)
    except TimeoutError:
        raise DeliveryFailed(f"no answer within {timeout.total_seconds():g} s", code="timeout") from None
    except ssl.SSLCertVerificationError as error:
        raise DeliveryRefused(
            f"its certificate is not good: {error.verify_message}", code="bad_certificate"
        ) from None
    except OSError as error:
        raise DeliveryFailed(
            f"the connection failed: {error.strerror or type(error).__name__}", code="connection_failed"
        ) from None
    return _judge(head)


def _resolve(target: Target, deadline: _Deadline) -> list[str]:
    """In a thread, since the resolver knows no deadline."""
    answers: queue.SimpleQueue[list[str] | OSError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
            answers.put([str(address[0]) for *_, address in found])
        except (OSError, UnicodeError) as error:
            answers.put(error if isinstance(error, OSError) else OSError(str(error)))

    threading.Thread(target=ask, name="alert-resolver", daemon=True).start()
    try:
        answer = answers.get(timeout=deadline.left())
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(answer, OSError) or not answer:
        raise DeliveryFailed("its host's name cannot be resolved", code="unresolved")
    return list(dict.fromkeys(answer))


def _permitted(addresses: list[str], *, allow_private: bool) -> list[str]:
    for address in addresses:
        reason = None if allow_private else refusal(address)
        if reason:
            raise DeliveryRefused(
                f"its host stands for {address}: {reason}; JOBS['ALERT_ALLOW_PRIVATE'] would allow it",
                code="private_address",
            )
    return addresses


def _connected(target: Target, addresses: list[str], deadline: _Deadline) -> socket.socket:
    trouble: OSError = OSError("no address")
    for tried, address in enumerate(addresses):
        try:
            plain = connect(address, target.port, deadline.left() / (len(addresses) - tried))
        except OSError as error:
            trouble = error
            continue
        if not target.secure:
            return plain
        try:
            plain.settimeout(deadline.left())
            return ssl.create_default_context().wrap_socket(plain, server_hostname=target.host)
        except BaseException:
            plain.close()
            raise
    raise trouble


def connect(address: str, port: int, timeout: float) -> socket.socket:
    """To an address, never to a name: nothing is resolved again."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect((address, port))
    except BaseException:
        connection.close()
        raise
    return connection


def _request(target: Target, body: bytes, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"Host: {target.host_header}",
        "User-Agent: Sprocket",
        "Accept-Encoding: identity",
        "Connection: close",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _read_head(connection: socket.socket, deadline: _Deadline) -> str:
    received = b""
    while b"\r\n\r\n" not in received and len(received) < _LARGEST_HEAD:
        connection.settimeout(deadline.left())
        piece = connection.recv(4096)
        if not piece:
            break
        received += piece
    return received.partition(b"\r\n\r\n")[0].decode("latin-1")


def _judge(head: str) -> int:
    found = re.match(r"HTTP/1\.[01] ([1-5]\d\d)(?: |\r|$)", head)
    if found is None:
        raise DeliveryFailed("its answer is not HTTP", code="not_http")
    status = int(found[1])
    if 200 <= status < 300:
        return status
    if 300 <= status < 400:
        raise DeliveryRefused(
            f"it answered {status}, a redirect, which is not followed", code="redirect", status=status
        )
    if status in (408, 425, 429) or status >= 500 or status < 200:
        raise DeliveryFailed(
            f"it answered {status}", code="bad_status", status=status, retry_after=_retry_after(head)
        )
    raise DeliveryRefused(f"it answered {status}", code="bad_status", status=status)


def _retry_after(head: str) -> float | None:
    found = re.search(r"\r\nretry-after:[ \t]*(\d{1,6}(?:\.\d{1,6})?)[ \t]*(?:\r|$)", head, re.IGNORECASE)
    return float(found[1]) if found else None
