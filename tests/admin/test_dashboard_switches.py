"""The switches of the dashboard: job types are paused, resumed and limited while the queue runs."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.messages import ERROR, get_messages
from django.test import Client

from jobs import enqueue, lifecycle
from jobs.models import JobTypeState
from tests.conftest import Declare
from tests.support.pages.codes import numbers_in, told, told_on
from tests.support.pages.dashboard_pages import PAGE, SWITCH, state_of
from tests.support.queue.actors import new_worker

pytestmark = pytest.mark.django_db


def switch(client: Client, do: str, name: str = "tests.noop", **more: str) -> list[str]:
    """What the page then tells, which names the type unless the order was nonsense."""
    answer = client.post(SWITCH, {"name": name, "do": do, **more}, follow=True)
    assert answer.redirect_chain == [(f"{PAGE}#types", 302)]
    for message in get_messages(answer.wsgi_request):
        assert message.level == ERROR or name in str(message)
    shown = told_on(answer.content.decode())
    assert shown == told(answer)
    return shown


def test_a_type_is_paused_and_resumed_and_the_log_knows(admin_client: Client) -> None:
    assert switch(admin_client, "pause") == ["type_pause success"]
    assert JobTypeState.objects.get().paused
    assert state_of(admin_client)["type.tests.noop.paused"] is True
    assert switch(admin_client, "pause") == ["type_pause info"]
    assert switch(admin_client, "resume") == ["type_resume success"]
    assert switch(admin_client, "resume") == ["type_resume info"]
    assert not JobTypeState.objects.get().paused
    entries = LogEntry.objects.order_by("pk").values_list("object_id", "change_message")
    assert list(entries) == [("tests.noop", "paused"), ("tests.noop", "resumed")]


def test_a_paused_type_starts_no_more_jobs(admin_client: Client) -> None:
    enqueue("tests.noop")
    switch(admin_client, "pause")
    assert lifecycle.claim(new_worker(), 1) == []
    switch(admin_client, "resume")
    assert len(lifecycle.claim(new_worker(), 1)) == 1


def test_a_type_is_limited_and_the_limit_taken_back(admin_client: Client, declare: Declare) -> None:
    declare("here.limited", concurrency=3)
    assert switch(admin_client, "limit", "here.limited", limit=" 5 ") == ["type_limit success"]
    assert JobTypeState.objects.get().concurrency == 5
    assert numbers_in(state_of(admin_client)["type.here.limited.load"]) == [0, 5]
    assert switch(admin_client, "limit", "here.limited", limit="5") == ["type_limit info"]
    assert switch(admin_client, "limit", "here.limited", limit="") == ["type_limit success"]
    assert JobTypeState.objects.get().concurrency is None
    assert numbers_in(state_of(admin_client)["type.here.limited.load"]) == [0, 3]


@pytest.mark.parametrize("limit", ["-1", "1.5", "many", "1000001", "9" * 5000, "٣"])
def test_a_limit_that_is_none_is_refused(admin_client: Client, limit: str) -> None:
    assert switch(admin_client, "limit", limit=limit) == ["type_bad_limit error"]
    assert not JobTypeState.objects.exists()


def test_nonsense_is_refused(admin_client: Client) -> None:
    assert switch(admin_client, "destroy") == ["type_bad_verb error"]
    assert admin_client.post(SWITCH, {"name": "no.such", "do": "pause"}).status_code == 404
    assert admin_client.post(SWITCH).status_code == 404
    assert admin_client.get(SWITCH, {"name": "tests.noop", "do": "pause"}).status_code == 405
    assert admin_client.get(f"{PAGE}live/").status_code == 400
    assert admin_client.get(f"{PAGE}live/?job=x").status_code == 400
    assert not JobTypeState.objects.exists()


def test_a_switch_without_the_csrf_token_does_nothing(admin_user: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    assert client.post(SWITCH, {"name": "tests.noop", "do": "pause"}).status_code == 403
    assert not JobTypeState.objects.exists()
