"""Schedules in the admin: made, changed, paused, resumed, run now; those of the code are shown and left alone."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.test import Client
from django.utils.html import escape

from jobs import database, periodic
from jobs.models import Firing, Job, Schedule
from jobs.timetable import declarations, schedules
from tests.support.pages.admin_pages import EVIL, client_of, said, text_of
from tests.support.pages.codes import codes_on, numbers_in, told
from tests.support.queue.schedules import make_due, make_schedule

pytestmark = pytest.mark.django_db

SCHEDULES = "/admin/jobs/schedule/"
FILLED = {
    "name": "nightly",
    "type": "tests.noop",
    "payload": "{}",
    "cron": "0 3 * * *",
    "timezone": "Europe/Berlin",
    "catch_up": "once",
    "priority": "",
}


@pytest.fixture(autouse=True)
def _nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declarations, "_declared", {})


def page_of(name: str = "nightly") -> str:
    return f"{SCHEDULES}{quote(name)}/change/"


def act(client: Client, verb: str, name: str = "nightly") -> Any:
    return client.post(f"{SCHEDULES}{quote(name)}/act/", {"verb": verb})


def stored(name: str = "nightly") -> Any:
    return Schedule.objects.get(pk=name)


def refusals(answer: Any) -> dict[str, list[str]]:
    """The codes of the errors of the form, by field."""
    errors = answer.context["adminform"].form.errors.as_data()
    return {field: [error.code for error in found] for field, found in errors.items()}


def logged() -> list[str]:
    return [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")]


# -- making and changing -----------------------------------------------------------------------------------------------


def test_a_schedule_is_made_and_fires(admin_client: Client) -> None:
    assert admin_client.get(f"{SCHEDULES}add/").status_code == 200
    answer = admin_client.post(f"{SCHEDULES}add/", FILLED | {"cron": "* * * * *"})
    assert answer.status_code == 302, text_of(answer)
    row = stored()
    assert (row.source, row.timezone, row.catch_up, row.payload) == ("admin", "Europe/Berlin", "once", {})
    assert row.next_at > database.read_clock()
    make_due()
    assert len(schedules.fire_due()) == 1
    assert logged() == ["Added."]


@pytest.mark.parametrize(
    ("field", "given", "code"),
    [
        ("cron", "0 25 * * *", "bad_cron"),
        ("cron", "0 3 * *", "bad_cron"),
        ("cron", EVIL, "bad_cron"),
        ("timezone", "Berlin", "bad_timezone"),
        ("timezone", "../../etc/passwd", "bad_timezone"),
        ("type", "tests.unheard_of", "invalid_choice"),
        ("payload", "[1]", "not_an_object"),
        ("payload", "{", "invalid"),
        ("payload", '{"colour": "red"}', "bad_arguments"),
        ("payload", '{"nul": "\\u0000"}', "bad_payload"),
        ("catch_up", "maybe", "invalid_choice"),
        ("priority", "99999999999", "bad_priority"),
        ("priority", "urgent", "bad_priority"),
        ("name", "", "required"),
        ("name", "x" * 101, "max_length"),
    ],
)
def test_what_makes_no_sense_is_refused_at_its_field(
    admin_client: Client, field: str, given: str, code: str
) -> None:
    answer = admin_client.post(f"{SCHEDULES}add/", FILLED | {field: given})
    assert answer.status_code == 200
    assert refusals(answer) == {field: [code]}
    page = text_of(answer)
    (complaint,) = answer.context["adminform"].form.errors[field]
    assert escape(complaint) in page
    assert EVIL not in page
    assert f"field-{field}" in page.split(escape(complaint), maxsplit=1)[0][-800:] or "errornote" in page
    assert not Schedule.objects.exists()


def test_a_wrong_expression_is_told_what_is_wrong_with_it(admin_client: Client) -> None:
    answer = admin_client.post(f"{SCHEDULES}add/", FILLED | {"cron": "0 25 * * *"})
    (complaint,) = answer.context["adminform"].form.errors["cron"]
    for fact in ("'25'", "0", "23"):
        assert fact in complaint


def test_another_expression_sets_the_next_firing_anew_and_anything_else_leaves_it(
    admin_client: Client,
) -> None:
    make_schedule(cron="* * * * *")
    make_due()
    due = stored().next_at
    admin_client.post(page_of(), FILLED | {"cron": "* * * * *", "timezone": "UTC", "priority": "3"})
    assert (stored().priority, stored().next_at) == (3, due)
    admin_client.post(page_of(), FILLED | {"timezone": "UTC"})
    assert stored().next_at > due
    assert stored().next_at.hour == 3


def test_a_name_cannot_be_changed_or_taken(admin_client: Client) -> None:
    make_schedule()
    admin_client.post(page_of(), FILLED | {"name": "other"})
    assert list(Schedule.objects.values_list("name", flat=True)) == ["nightly"]
    assert refusals(admin_client.post(f"{SCHEDULES}add/", FILLED)) == {"name": ["unique"]}
    periodic("tests.noop", cron="0 3 * * *", name="declared")
    answer = admin_client.post(f"{SCHEDULES}add/", FILLED | {"name": "declared"})
    assert refusals(answer) == {"name": ["in_code"]}


@pytest.mark.parametrize("name", ["daily_add", "a/b", "50 % off?", "#1", "nächtlich", EVIL])
def test_any_name_can_be_looked_at_and_acted_on(admin_client: Client, name: str) -> None:
    admin_client.post(f"{SCHEDULES}add/", FILLED | {"name": name})
    assert admin_client.get(page_of(name)).status_code == 200
    act(admin_client, "pause", name)
    assert stored(name).paused
    page = text_of(admin_client.get(SCHEDULES))
    assert EVIL not in page
    assert quote(name) in page or name in page


# -- acting ------------------------------------------------------------------------------------------------------------


def test_it_is_paused_resumed_and_run_by_buttons(admin_client: Client) -> None:
    make_schedule()
    answer = act(admin_client, "pause")
    assert told(answer) == ["schedule_pause success"]
    assert "nightly" in said(answer)[0]
    assert stored().next_at is None
    assert told(act(admin_client, "pause"))[-1] == "schedule_pause warning"
    act(admin_client, "resume")
    assert stored().next_at is not None
    answer = act(admin_client, "run")
    assert told(answer)[-1] == "schedule_run success"
    job = Job.objects.get()
    assert job.pk in said(answer)[-1]
    assert Firing.objects.get().by_hand
    *others, run = logged()
    assert others == ["paused", "resumed"]
    assert run.endswith(job.pk)
    page = text_of(admin_client.get(page_of()))
    assert job.pk in page
    assert {"by_hand", "coming"} <= set(codes_on(page))
    assert 'name="verb" value="pause"' in page


def test_what_cannot_be_run_says_why(admin_client: Client) -> None:
    make_schedule(type="tests.unheard_of")
    answer = act(admin_client, "run")
    assert told(answer) == ["schedule_run error"]
    assert "tests.unheard_of" in said(answer)[0]
    assert not Job.objects.exists()


def test_the_list_shows_what_comes_and_what_was(admin_client: Client) -> None:
    make_schedule("nightly", catch_up="all")
    make_schedule("never", cron="0 3 1 1 *")
    schedules.pause(["never"])
    make_due(minutes_ago=3)
    fired = schedules.fire_due()
    page = text_of(admin_client.get(SCHEDULES))
    for text in ("nightly", "* * * * *", 'data-live-time="left"', fired[-1], 'data-status="paused"', "never"):
        assert text in page, text
    chosen = {"action": "resume", "_selected_action": ["never", "nightly"]}
    answer = admin_client.post(SCHEDULES, chosen)
    assert told(answer) == ["schedule_resume success"]
    assert numbers_in(said(answer)[0]) == [1]
    assert not stored("never").paused


def test_no_schedule_yet_says_how_to_make_one(admin_client: Client) -> None:
    assert "periodic(" in text_of(admin_client.get(SCHEDULES))
    assert codes_on(text_of(admin_client.get(SCHEDULES))) == ["no_schedules"]
    assert codes_on(text_of(admin_client.get(f"{SCHEDULES}?q=x"))) == ["no_match"]


def test_the_list_takes_few_queries_however_many_there_are(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(40):
        make_schedule(f"number {number}")
        make_due(f"number {number}")
    schedules.fire_due()
    with django_assert_max_num_queries(12):
        admin_client.get(SCHEDULES)


# -- those of the code -------------------------------------------------------------------------------------------------


def test_a_schedule_of_the_code_can_be_paused_and_run_but_not_changed_or_deleted(
    admin_client: Client,
) -> None:
    periodic("tests.noop", cron="* * * * *", name="nightly")
    schedules.sync_declared()
    assert "in_code" in codes_on(text_of(admin_client.get(page_of())))
    admin_client.post(page_of(), FILLED | {"cron": "0 4 * * *"})
    assert stored().cron == "* * * * *"
    assert admin_client.post(f"{SCHEDULES}nightly/delete/", {"post": "yes"}).status_code == 403
    act(admin_client, "pause")
    act(admin_client, "run")
    assert (stored().paused, Job.objects.count()) == (True, 1)
    declarations._declared.clear()
    schedules.sync_declared()
    assert 'data-status="removed"' in text_of(admin_client.get(page_of()))
    assert admin_client.post(f"{SCHEDULES}nightly/delete/", {"post": "yes"}).status_code == 302
    assert (Schedule.objects.count(), Firing.objects.count()) == (0, 0)


# -- who may -----------------------------------------------------------------------------------------------------------


def test_nothing_happens_by_looking_or_without_the_right(admin_client: Client) -> None:
    make_schedule()
    assert admin_client.get(f"{SCHEDULES}nightly/act/").status_code == 405
    viewer = client_of("view_schedule")
    page = text_of(viewer.get(page_of()))
    assert 'name="verb"' not in page
    for verb in ("pause", "run"):
        assert act(viewer, verb).status_code == 403
    assert viewer.post(page_of(), FILLED).status_code == 403
    assert viewer.post(f"{SCHEDULES}add/", FILLED | {"name": "mine"}).status_code == 403
    stranger = client_of("view_job", name="stranger")
    assert stranger.get(SCHEDULES).status_code == 403
    assert act(Client(), "run").status_code == 302  # to the login
    assert (Schedule.objects.count(), Job.objects.count(), stored().paused) == (1, 0, False)


@pytest.mark.parametrize(
    ("name", "verb", "status"), [("unheard-of", "run", 404), ("nightly", "explode", 400)]
)
def test_what_is_not_there_is_said(admin_client: Client, name: str, verb: str, status: int) -> None:
    make_schedule()
    assert act(admin_client, verb, name).status_code == status
    assert admin_client.get(f"{SCHEDULES}a%00b/change/").status_code in (302, 404)
