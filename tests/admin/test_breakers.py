"""Breakers as people see them: on their page, with the job types, on the dashboard, in the API; and the reset."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from jobs import enqueue
from jobs.admin.breaker import read_rows
from jobs.dashboard.topics import dashboard_topics
from jobs.models import Breaker
from jobs.overview import snapshot
from tests.conftest import Declare
from tests.support.pages.admin_pages import EVIL, client_of, said, text_of
from tests.support.pages.codes import told
from tests.support.queue.actors import claimed_ids, new_worker
from tests.support.queue.breakers import cooldown_over, open_breaker, state_of
from tests.support.queue.commands import manage

pytestmark = pytest.mark.django_db

BREAKERS = "/admin/jobs/breaker/"


@pytest.fixture(autouse=True)
def _types(declare: Declare) -> None:
    declare("here.charge", breaker="payments")


def reset(client: Client, name: str = "payments") -> Any:
    return client.post(f"{BREAKERS}reset/", {"name": name})


def test_the_page_shows_state_reason_and_types_also_of_one_that_never_failed(admin_client: Client) -> None:
    page = text_of(admin_client.get(BREAKERS))
    for text in ("payments", 'data-status="closed"', 'data-code="never_failed"', "here.charge"):
        assert text in page, text
    open_breaker(reason=f"OSError: {EVIL}")
    page = text_of(admin_client.get(BREAKERS))
    for text in (
        'data-status="open"',
        'data-code="retry_at"',
        'data-failures="5"',
        "OSError: &lt;script&gt;",
    ):
        assert text in page, text
    assert f'action="{BREAKERS}reset/"' in page
    assert EVIL not in page


def test_once_its_cooldown_is_over_it_is_shown_as_half_open_though_nobody_has_asked(
    admin_client: Client,
) -> None:
    open_breaker()
    cooldown_over()
    page = text_of(admin_client.get(BREAKERS))
    assert 'data-status="half-open"' in page
    assert 'data-probes="0" data-most-probes="1"' in page


def test_a_reset_closes_it_and_is_in_the_log(admin_client: Client) -> None:
    open_breaker()
    enqueue("here.charge")
    answer = reset(admin_client)
    assert told(answer) == ["breaker_reset success"]
    assert "payments" in said(answer)[0]
    assert (state_of(), Breaker.objects.get().failures) == ("closed", 0)
    assert len(claimed_ids(new_worker())) == 1
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.change_message) == ("payments", "reset")
    assert told(reset(admin_client))[-1] == "breaker_reset warning"
    assert LogEntry.objects.count() == 1


def test_nothing_is_reset_by_looking_or_without_the_right(admin_client: Client) -> None:
    open_breaker()
    assert admin_client.get(f"{BREAKERS}reset/").status_code == 405
    viewer = client_of("view_breaker")
    page = viewer.get(BREAKERS)
    assert page.status_code == 200
    assert f"{BREAKERS}reset/" not in text_of(page)
    assert reset(viewer).status_code == 403
    stranger = client_of("view_job", name="stranger")
    assert stranger.get(BREAKERS).status_code == 403
    assert stranger.get(f"{BREAKERS}live/").status_code == 403
    assert Client().get(f"{BREAKERS}live/").status_code == 401
    assert reset(Client()).status_code == 302  # to the login
    assert state_of() == "open"


@pytest.mark.parametrize("name", ["", "unheard-of", "pay\0ments", "x" * 5000])
def test_a_breaker_that_is_none_cannot_be_reset(admin_client: Client, name: str) -> None:
    open_breaker()
    assert reset(admin_client, name).status_code == 404


def test_the_address_of_one_leads_to_the_list(admin_client: Client) -> None:
    open_breaker()
    assert admin_client.get(f"{BREAKERS}payments/change/").headers["Location"] == BREAKERS
    assert admin_client.post(BREAKERS).status_code == 405


def test_its_stream_follows(admin_client: Client) -> None:
    assert read_rows()["breaker.payments.state"] == "closed"
    open_breaker()
    assert read_rows()["breaker.payments.state"] == "open"
    assert read_rows()["breaker.payments.disturbed"] is True


def test_the_job_types_page_and_the_dashboard_say_that_a_type_is_held_back(admin_client: Client) -> None:
    types, dashboard = "/admin/jobs/jobtypestate/", "/admin/jobs/dashboard/"
    for address in (types, dashboard):
        assert 'data-status="breaker' not in text_of(admin_client.get(address))
    open_breaker()
    for address in (types, dashboard):
        assert 'data-status="breaker open"' in text_of(admin_client.get(address))
    assert "ConnectionError: no answer" in text_of(admin_client.get(dashboard))


def test_the_dashboard_shows_breakers_to_those_who_may_see_them() -> None:
    open_breaker()
    assert 'id="breakers"' not in text_of(client_of("view_job").get("/admin/jobs/dashboard/"))
    seer = client_of("view_job", "view_breaker", name="seer")
    assert 'id="breakers"' in text_of(seer.get("/admin/jobs/dashboard/"))
    names = [topic.name for topic in dashboard_topics("admin", workers=False, types=False, breakers=True)]
    assert "dashboard:breakers:admin" in names


def test_the_snapshot_and_the_command_tell_of_those_that_are_not_closed() -> None:
    assert snapshot()["breakers"] == {}
    open_breaker()
    expected = {"payments": {"state": "open", "reason": "ConnectionError: no answer"}}
    assert snapshot()["breakers"] == expected
    (line,) = [line for line in manage("jobs", "status").out.splitlines() if "payments" in line]
    assert "open" in line
    assert "ConnectionError: no answer" in line
    assert json.loads(manage("jobs", "status", "--json").out)["breakers"] == expected


def test_the_api_tells_of_all_of_them(admin_client: Client) -> None:
    open_breaker()
    found = {row["name"]: row for row in admin_client.get("/api/queue").json()["breakers"]}["payments"]
    assert (found["state"], found["failures"], found["types"][0]) == ("open", 5, "here.charge")
    assert found["retry_at"] > found["since"]
