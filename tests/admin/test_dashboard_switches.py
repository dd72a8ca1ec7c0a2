"""The switches of the dashboard: job types are paused, resumed and limited while the queue runs."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from jobs import enqueue, lifecycle
from jobs.models import JobTypeState
from tests.conftest import Declare
from tests.support.pages.dashboard_pages import PAGE, SWITCH, state_of, words_of
from tests.support.queue.actors import new_worker

pytestmark = pytest.mark.django_db


def switch(client: Client, do: str, name: str = "tests.noop", **more: str) -> str:
    answer = client.post(SWITCH, {"name": name, "do": do, **more}, follow=True)
    assert answer.redirect_chain == [(f"{PAGE}#types", 302)]
    return words_of(answer.content.decode())


def test_a_type_is_paused_and_resumed_and_the_log_knows(admin_client: Client) -> None:
    assert "The job type tests.noop was paused." in switch(admin_client, "pause")
    assert JobTypeState.objects.get().paused
    assert state_of(admin_client)["type.tests.noop.paused"] is True
    assert "Nothing to do: tests.noop is paused already." in switch(admin_client, "pause")
    assert "The job type tests.noop was resumed." in switch(admin_client, "resume")
    assert "Nothing to do: tests.noop is not paused." in switch(admin_client, "resume")
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
    assert "The job type here.limited was limited to 5 at once." in switch(
        admin_client, "limit", "here.limited", limit=" 5 "
    )
    assert state_of(admin_client)["type.here.limited.load"] == "0 of 5"
    assert "Nothing to do: here.limited is limited to 5 at once." in switch(
        admin_client, "limit", "here.limited", limit="5"
    )
    assert "The job type here.limited was limited as declared." in switch(
        admin_client, "limit", "here.limited", limit=""
    )
    assert state_of(admin_client)["type.here.limited.load"] == "0 of 3"


@pytest.mark.parametrize("limit", ["-1", "1.5", "many", "1000001", "9" * 5000, "٣"])
def test_a_limit_that_is_none_is_refused(admin_client: Client, limit: str) -> None:
    assert "A limit is a whole number from 0 to 1,000,000." in switch(admin_client, "limit", limit=limit)
    assert not JobTypeState.objects.exists()


def test_nonsense_is_refused(admin_client: Client) -> None:
    assert "Pause, resume or limit?" in switch(admin_client, "destroy")
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
