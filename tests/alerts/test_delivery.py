"""Posting an alert: to whom it may go, and what a hostile or broken endpoint can do, which is nothing."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from jobs.alerts.delivery import DeliveryFailed, DeliveryRefused, post
from tests.support.servers.webhooks import Behaviour, Resolver, Webhook, answers, serving

SECONDS = timedelta(seconds=30)
SOON = timedelta(seconds=0.5)
NAME = "hooks.example.org"


def send(url: str, *, timeout: timedelta = SECONDS, allow_private: bool = True) -> int:
    return post(url, b'{"a": 1}', headers={"X-A": "b"}, timeout=timeout, allow_private=allow_private)


# -- an ordinary endpoint ----------------------------------------------------------------------------------------------


def test_it_arrives(webhook: Webhook) -> None:
    assert send(webhook.url("/a/b?c=d")) == 200
    (request,) = webhook.requests
    assert request.line == "POST /a/b?c=d HTTP/1.1"
    assert request.body == b'{"a": 1}'
    assert request.headers["host"] == f"127.0.0.1:{webhook.port}"
    assert (request.headers["x-a"], request.headers["connection"]) == ("b", "close")


def test_no_proxy_of_the_environment_is_used(webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert send(webhook.url()) == 200


# -- hostile and broken ones -------------------------------------------------------------------------------------------


def drip(connection: socket.socket, over: threading.Event) -> None:
    """A byte now and then, each in time, for ever."""
    with contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not over.wait(0.05):
            connection.sendall(b"x")


def never(connection: socket.socket, over: threading.Event) -> None:
    over.wait(60)


def flood(connection: socket.socket, over: threading.Event) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while not over.is_set():
            connection.sendall(b"X: " + b"x" * 65536 + b"\r\n")


def endless_body(connection: socket.socket, over: threading.Event) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
        while not over.is_set():
            connection.sendall(b"x" * 65536)


def says(text: bytes) -> Behaviour:
    return lambda connection, over: connection.sendall(text)


@pytest.mark.parametrize("behaviour", [drip, never], ids=["drips", "says nothing"])
def test_a_slow_endpoint_takes_no_longer_than_the_timeout(webhook: Webhook, behaviour: Behaviour) -> None:
    webhook.behave = behaviour
    with pytest.raises(DeliveryFailed, match=r"\b0\.5 s") as told:
        send(webhook.url(), timeout=SOON)
    assert told.value.code == "timeout"


@pytest.mark.parametrize("behaviour", [flood, endless_body], ids=["endless head", "endless body"])
def test_an_endless_answer_is_read_no_further_than_its_head(webhook: Webhook, behaviour: Behaviour) -> None:
    webhook.behave = behaviour
    assert send(webhook.url()) == 200


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0" * 100,
        b"hello\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 999 x\r\n\r\n",
    ],
)
def test_an_answer_that_is_no_http_is_a_failure(webhook: Webhook, text: bytes) -> None:
    webhook.behave = says(text)
    with pytest.raises(DeliveryFailed) as told:
        send(webhook.url())
    assert told.value.code == "not_http"


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
def test_a_redirect_is_not_followed(webhook: Webhook, status: str) -> None:
    with serving() as inside:
        webhook.behave = answers(f"{status}\r\nLocation: {inside.url()}")
        with pytest.raises(DeliveryRefused) as told:
            send(webhook.url())
        assert (told.value.code, told.value.status) == ("redirect", int(status[:3]))
        assert inside.connections == 0


@pytest.mark.parametrize("status", ["400 Bad", "401 No", "403 No", "404 Gone", "410 Gone"])
def test_a_refusal_is_final(webhook: Webhook, status: str) -> None:
    webhook.behave = answers(status)
    with pytest.raises(DeliveryRefused, match=status[:3]) as told:
        send(webhook.url())
    assert (told.value.code, told.value.status) == ("bad_status", int(status[:3]))


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("429 Slow\r\nRetry-After: 30", 30.0),
        ("429 Slow\r\nretry-after: 1.5", 1.5),
        ("503 Busy\r\nRetry-After: -5", None),
        ("503 Busy\r\nRetry-After: 99999999999999999999", None),
        ("503 Busy\r\nRetry-After: Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("500 Oh", None),
        ("408 Late", None),
    ],
)
def test_trouble_may_pass(webhook: Webhook, text: str, wait: float | None) -> None:
    webhook.behave = answers(text)
    with pytest.raises(DeliveryFailed) as told:
        send(webhook.url())
    assert not isinstance(told.value, DeliveryRefused)
    assert (told.value.code, told.value.status) == ("bad_status", int(text[:3]))
    assert told.value.retry_after == wait


def test_a_closed_port_is_a_failure_that_may_pass() -> None:
    with serving() as webhook:
        url = webhook.url()
    with pytest.raises(DeliveryFailed, match="Connection refused") as told:  # as the system says it
        send(url)
    assert told.value.code == "connection_failed"


def test_a_resolver_that_hangs_takes_no_longer_than_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: [over.wait(60)][:0])
    with pytest.raises(DeliveryFailed) as told:
        send(f"https://{NAME}/", timeout=SOON)
    over.set()
    assert told.value.code == "timeout"


def test_a_name_that_does_not_exist_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> Any:
        raise socket.gaierror(-2, f"Name or service not known: {NAME}")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(DeliveryFailed) as told:
        send(f"https://{NAME}/")
    assert told.value.code == "unresolved"
    assert NAME not in str(told.value)


@pytest.mark.parametrize(
    "behaviour", [drip, never, says(b""), says(b"\0"), answers("500 x"), answers("302 x")]
)
def test_no_error_quotes_the_path(webhook: Webhook, behaviour: Behaviour) -> None:
    webhook.behave = behaviour
    with pytest.raises(DeliveryFailed) as told:
        send(webhook.url("/services/T0/B0/hidden"), timeout=SOON)
    assert "hidden" not in f"{told.value!r} {told.value.__cause__} {told.value.args}"
    assert told.value.__suppress_context__ or told.value.__context__ is None


# -- TLS ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    """With a certificate for NAME, of an authority that this machine trusts; NAME stands for it."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(NAME).configure_cert(context)
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(*[["127.0.0.1"]] * 9))
    with serving(tls=context) as webhook:
        yield webhook


def test_the_certificate_and_the_host_are_those_of_the_name(secure: Webhook) -> None:
    assert send(f"https://{NAME}:{secure.port}/") == 200
    assert secure.names == [NAME]
    assert secure.requests[0].headers["host"] == f"{NAME}:{secure.port}"


def test_a_certificate_of_another_name_is_refused(secure: Webhook) -> None:
    with pytest.raises(DeliveryRefused) as told:
        send(f"https://other.example.org:{secure.port}/")
    assert told.value.code == "bad_certificate"
    assert secure.requests == []


def test_a_certificate_that_nobody_vouches_for_is_refused(
    secure: Webhook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "other.pem"))
    with pytest.raises(DeliveryRefused) as told:
        send(f"https://{NAME}:{secure.port}/")
    assert told.value.code == "bad_certificate"
    assert secure.requests == []


def test_a_handshake_that_hangs_takes_no_longer_than_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(socket, "getaddrinfo", Resolver(["127.0.0.1"]))
        before = time.monotonic()
        with pytest.raises(DeliveryFailed) as told:
            send(f"https://{NAME}:{silent.getsockname()[1]}/", timeout=SOON)
        assert told.value.code == "timeout"
        assert time.monotonic() - before >= SOON.total_seconds()
