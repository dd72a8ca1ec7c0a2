"""Where an alert may go: never to this machine or its network, however the address is written or resolved."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest

from jobs.alerts import delivery
from jobs.alerts.addresses import refusal
from jobs.alerts.delivery import DeliveryRefused, post
from jobs.alerts.target import Target
from tests.support.servers.webhooks import Resolver, Webhook, answers, serving

NAME = "hooks.example.org"
PUBLIC = "93.184.216.34"


def send(url: str, *, allow_private: bool = False) -> int:
    return post(url, b"{}", headers={}, timeout=timedelta(seconds=30), allow_private=allow_private)


# -- addresses ---------------------------------------------------------------------------------------------------------

REFUSED = [
    *("127.0.0.1", "127.255.1.2", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("169.254.169.254", "100.64.0.1", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9"),
    *("224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.88.99.1"),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "fec0::1", "ff02::1", "100::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::ffff:0:127.0.0.1"),
    *("64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8"),
    *("2002:7f00:1::", "2001::1", "2001:db8::1", "2001:20::1", "3fff::1", "4000::1", "no address", ""),
]
ALLOWED = [
    "8.8.8.8",
    PUBLIC,
    "2606:4700::1111",
    "2a00:1450:4001::5",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]


@pytest.mark.parametrize("address", REFUSED)
def test_special_addresses_are_refused(address: str) -> None:
    assert refusal(address)


@pytest.mark.parametrize("address", ALLOWED)
def test_ordinary_addresses_are_not(address: str) -> None:
    assert refusal(address) is None


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0",
    ],
)
def test_this_machine_is_refused_however_it_is_written(webhook: Webhook, host: str) -> None:
    with pytest.raises(DeliveryRefused) as told:
        send(f"http://{host}:{webhook.port}/")
    assert told.value.code == "private_address"
    assert webhook.connections == 0


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch, webhook: Webhook) -> list[str]:
    """Where connections were made to; they end at the webhook."""
    to: list[str] = []
    really = delivery.connect

    def connect(address: str, port: int, timeout: float) -> socket.socket:
        to.append(address)
        return really("127.0.0.1", webhook.port, timeout)

    monkeypatch.setattr(delivery, "connect", connect)
    return to


def test_a_name_is_resolved_once_and_the_judged_address_is_used(
    connected: list[str], webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = Resolver([PUBLIC], ["127.0.0.1"])
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    assert send(f"http://{NAME}/x") == 200
    assert (resolver.asked, connected) == ([NAME], [PUBLIC])
    assert webhook.requests[0].headers["host"] == NAME


@pytest.mark.parametrize("addresses", [["10.0.0.7"], [PUBLIC, "127.0.0.1"], ["::ffff:10.0.0.7"]])
def test_a_name_that_also_stands_for_a_private_address_is_refused(
    connected: list[str], monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(addresses))
    with pytest.raises(DeliveryRefused, match="ALERT_ALLOW_PRIVATE") as told:  # the setting to change
        send(f"https://{NAME}/")
    assert told.value.code == "private_address"
    assert connected == []


def test_a_public_host_cannot_send_it_on_to_a_private_one(
    connected: list[str], webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver([PUBLIC], ["127.0.0.1"]))
    with serving() as inside:
        webhook.behave = answers(f"307 Temporary Redirect\r\nLocation: {inside.url()}")
        with pytest.raises(DeliveryRefused) as told:
            send(f"http://{NAME}/")
        assert (told.value.code, told.value.status) == ("redirect", 307)
        assert (inside.connections, connected) == (0, [PUBLIC])


def test_connecting_resolves_nothing(webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    delivery.connect("127.0.0.1", webhook.port, 5).close()
    assert resolver.asked == []


def test_another_address_of_the_name_is_tried(webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = socket.create_server(("127.0.0.2", 0))
    closed.close()
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(["127.0.0.2", "127.0.0.1"]))
    assert send(f"http://{NAME}:{webhook.port}/", allow_private=True) == 200


# -- URLs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "hooks.example.org",
            "ftp://a/hidden",
            "file:///etc/passwd",
            "https://",
            "https:///hidden",
            "https://a b/",
        ),
        *(
            "https://a/\r\nX: hidden",
            "https://u:hidden@a/",
            "https://a/#hidden",
            "https://[::1",
            "https://a:99999/hidden",
        ),
        *(
            "https://a:x/hidden",
            "https://é.example/hidden",
            "https://a/" + "x" * 2000,
            "gopher://a/hidden",
            "https://a/\0",
        ),
    ],
)
def test_what_is_no_webhook_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL") as told:
        Target.parse(url)
    assert "hidden" not in str(told.value)


@pytest.mark.parametrize(
    ("url", "header"),
    [
        ("https://a.example", "a.example"),
        ("https://a.example:443/x", "a.example"),
        ("https://a.example:8443/x", "a.example:8443"),
        ("http://[2001:db8::1]:80/", "[2001:db8::1]"),
    ],
)
def test_the_host_header_names_the_port_where_it_matters(url: str, header: str) -> None:
    assert Target.parse(url).host_header == header
