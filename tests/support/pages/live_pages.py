"""What the tests of live pages share: streams from this process's own server, and people who open them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from pytest_django.live_server_helper import LiveServer

from jobs.live import hints
from jobs.live.hub import hub
from jobs.live.topic import Topic
from tests.support.processes import wait_until
from tests.support.servers.sse import Connect, EventStream


@pytest.fixture(autouse=True)
def _hints_start_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "_last_sent", float("-inf"))


@pytest.fixture
def connect(live_server: LiveServer) -> Iterator[Connect]:
    """`connect("?job=…")` opens a stream of this process's own server, as `user` or as one who may do everything."""
    opened: list[EventStream] = []

    def connect(query: str, *, user: User | None = None, **headers: str) -> EventStream:
        stream = EventStream(f"{live_server.url}/api/events/{query}", cookie=cookie_of(user), headers=headers)
        opened.append(stream)
        return stream

    yield connect
    for stream in opened:
        stream.close()
    wait_until(lambda: not hub.pages or forget_pages())
    wait_until(lambda: "live-hub" not in {thread.name for thread in threading.enumerate()})


def forget_pages() -> bool:
    """A server notices that a page is gone when it writes to it: close what is left, as its next write would."""
    for mailbox in list(hub._mailboxes):
        hub.leave(mailbox)
    return False


def cookie_of(user: User | None = None) -> str:
    client = Client()
    client.force_login(user or somebody("chief", superuser=True))
    return f"sessionid={client.cookies['sessionid'].value}"


def somebody(name: str, *permissions: str, staff: bool = True, superuser: bool = False) -> User:
    user, _ = User.objects.get_or_create(username=name, is_staff=staff, is_superuser=superuser)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


def topic_of(values: dict[str, Any], name: str = "here") -> Topic:
    return Topic(name, lambda: dict(values), every=0.05)


def hub_threads() -> int:
    return [thread.name for thread in threading.enumerate()].count("live-hub")
