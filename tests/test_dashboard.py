"""The dashboard and its summary: what they say, who sees them, what people do there."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from jobs import HIGH, database, enqueue, enqueue_many, lifecycle, workflow
from jobs.dashboard import charts, depth, words
from jobs.dashboard.addresses import Addresses
from jobs.dashboard.timing import percentile
from jobs.dashboard.topics import dashboard_topics
from jobs.lifecycle import FailureReport, ProgressReport
from jobs.models import Attempt, Dashboard, Job, JobTypeState
from jobs.statistics import Ended, History
from tests.actors import claim_one, new_worker
from tests.conftest import Declare
from tests.support import wait_until

pytestmark = pytest.mark.django_db

EVIL = "<script>alert(1)</script>"
PERMANENT = FailureReport("ValueError", "no", permanent=True)
PAGE = "/admin/jobs/dashboard/"
SWITCH = "/admin/jobs/dashboard/types/"


def client_of(*permissions: str) -> Client:
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def text_of(page: str) -> str:
    """What somebody reads."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def show(client: Client, address: str = PAGE) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def state_of(client: Client, query: str = "?dashboard") -> dict[str, Any]:
    answer = client.get(f"{PAGE}live/{query}", headers={"Accept": "application/json"})
    assert answer.status_code == 200
    state: dict[str, Any] = answer.json()
    return state


# -- what it says ----------------------------------------------------------------------------------------------------


def test_an_empty_queue_says_what_to_do_first(admin_client: Client) -> None:
    said = text_of(show(admin_client))
    assert "Nothing has been enqueued yet" in said
    assert "python manage.py runworker" in said
    for words_of_it in (
        "Nothing is running.",
        "Nothing has failed.",
        "No job has run yet.",
        "No worker has registered.",
    ):
        assert words_of_it in said
    enqueue("tests.noop")
    said = text_of(show(admin_client))
    assert "Nothing has been enqueued yet" not in said
    assert "no worker is there to run them" in said


def test_what_runs_is_shown_with_its_progress_and_its_end(admin_client: Client) -> None:
    job = enqueue("tests.noop")
    worker = new_worker(name="miller")
    lease = claim_one(worker).lease
    Job.objects.filter(pk=job.pk).update(claimed_at=database.now_minus(timedelta(seconds=60)))
    lifecycle.report_progress([ProgressReport(lease, 50, "grinding")])
    page = show(admin_client)
    row = re.search(rf'<tr data-key="{job.id}">.*?</tr>', page, re.DOTALL)
    assert row
    assert 'value="50.0"' in row[0]
    assert "grinding" in row[0]
    assert "miller" in row[0]
    assert 'data-live-time="left"' in row[0]
    assert reverse("admin:jobs_job_change", args=[job.id]) in row[0]


def test_what_failed_is_shown_with_the_reasons(admin_client: Client) -> None:
    worker = new_worker()
    for number in range(3):
        enqueue("tests.noop")
        lifecycle.fail(
            claim_one(worker).lease, FailureReport("OSError", f"disk {number}\nmore", permanent=True)
        )
    enqueue("tests.noop")
    lifecycle.fail(claim_one(worker).lease, PERMANENT)
    said = text_of(show(admin_client))
    assert "OSError × 3 ValueError × 1" in said
    assert "OSError: disk 2 tests.noop" in said, "newest first, the first line of each"


def test_what_waits_for_its_time_is_shown_with_the_reason(admin_client: Client) -> None:
    enqueue("tests.noop", delay=90)
    enqueue("tests.noop")
    lifecycle.fail(claim_one().lease, FailureReport("OSError", "busy"))
    said = text_of(show(admin_client))
    assert "tried 1 of 3: OSError: busy" in said
    assert state_of(admin_client)["count.scheduled"] == "2"


def test_everything_is_counted(admin_client: Client) -> None:
    with workflow("w") as flow:
        flow.add("tests.noop", after=[flow.add("tests.noop")])
    enqueue("tests.noop", delay=60)
    enqueue("tests.noop", priority=HIGH)
    enqueue("tests.noop", priority=HIGH)
    worker = new_worker()
    lifecycle.fail(claim_one(worker).lease, PERMANENT)
    claim_one(worker)
    state = state_of(admin_client)
    counts = {
        key: state[f"count.{key}"]
        for key in ("running", "pending", "scheduled", "blocked", "failed", "workers")
    }
    assert counts == {
        "running": "1",
        "pending": "1",
        "scheduled": "1",
        "blocked": "1",
        "failed": "1",
        "workers": "1",
    }
    assert state["type.tests.noop.pending"] == "1"
    assert state["type.tests.noop.load"] == "1"


def test_runs_appear_in_the_charts_and_the_percentiles(admin_client: Client) -> None:
    enqueue_many("tests.noop", [{}] * 5)
    worker = new_worker()
    for number, claimed in enumerate(lifecycle.claim(worker, 5)):
        if number:
            lifecycle.complete(claimed.lease)
        else:
            lifecycle.fail(claimed.lease, PERMANENT)
    Attempt.objects.update(finished_at=Now())  # all in the same minute
    page = show(admin_client)
    assert "Last hour: 4 runs completed, 1 failed, at most 5 per minute." in page
    assert "Last 24 hours: 4 runs completed, 1 failed, at most 5 per half hour." in page
    assert "the last 5 runs" in page


def test_workers_are_shown_with_what_they_do(admin_client: Client) -> None:
    busy = new_worker(name="busy one", concurrency=4, status="busy")
    new_worker(name="sleeper", disabled=True)
    new_worker(name="silent", last_heartbeat=database.now_minus(timedelta(minutes=3)))
    new_worker(name="gone", status="offline", stopped_at=database.now_minus(timedelta(days=2)))
    new_worker(name="leaver", draining=True)
    enqueue("tests.noop")
    claim_one(busy)
    page = show(admin_client)
    said = text_of(page)
    assert re.search(r"busy one busy heard [\d:]+ · 1 of 4 slots busy tests.noop", said)
    assert "sleeper disabled" in said
    assert "leaver idle draining" in said
    assert "gone" not in said
    assert page.count('class="sp-late"') == 1


def test_html_in_names_stays_text(admin_client: Client, declare: Declare) -> None:
    declare(EVIL)
    worker = new_worker(name=EVIL)
    for _ in range(3):
        enqueue(EVIL)
    lifecycle.fail(claim_one(worker).lease, FailureReport(EVIL, EVIL, permanent=True))
    lifecycle.fail(claim_one(worker).lease, FailureReport(EVIL, EVIL))
    lifecycle.report_progress([ProgressReport(claim_one(worker).lease, 40, EVIL)])
    pages = [show(admin_client), show(admin_client, "/admin/")]
    state = state_of(admin_client)
    assert "<script>alert" not in pages[0] + pages[1]
    fragments = [value["html"] for value in state.values() if isinstance(value, dict)]
    assert len(fragments) == 7
    assert "<script" not in "".join(fragments)
    assert "&lt;script&gt;" in "".join(fragments)
    assert f"type.{EVIL}.pending" in state, "a key is compared, never parsed"


def test_no_page_has_an_inline_script_or_style(admin_client: Client) -> None:
    """Of ours: a site may forbid them. Django's own templates have none either."""
    enqueue("tests.noop")
    claim_one()
    for address in (PAGE, "/admin/"):
        page = show(admin_client, address)
        assert not re.search(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)[^>]*>", page)
        assert not re.search(r"\s(style|onclick|onload)=", page)


def test_a_state_read_twice_is_the_same_while_nothing_happens(admin_client: Client) -> None:
    """Else every reading would be sent to every page."""
    enqueue_many("tests.noop", [{}] * 3)
    worker = new_worker()
    first, second = lifecycle.claim(worker, 2)
    lifecycle.report_progress([ProgressReport(first.lease, 40)])
    lifecycle.fail(second.lease, FailureReport("ValueError", "no"))
    topics = dashboard_topics("admin", workers=True, types=True)

    def read() -> list[dict[str, Any]]:
        return [dict(topic.read()) for topic in topics]

    wait_until(lambda: read() == read())  # not at once only when a minute begins between the two


def test_what_the_stream_says_has_its_place_on_the_page(admin_client: Client) -> None:
    enqueue("tests.noop")
    page = show(admin_client)
    places = set(re.findall(r'data-live(?:-show|-hide)?="([^"]+)"', page))
    state = state_of(admin_client)
    assert places <= set(state)
    assert set(state) - places <= {"count.ever"}, "that one matters before the first job only"


# -- the first page of the admin -------------------------------------------------------------------------------------


def test_the_first_page_shows_the_summary(admin_client: Client) -> None:
    enqueue("tests.noop")
    page = show(admin_client, "/admin/")
    assert "Open the dashboard" in page
    assert "Site administration" in page, "and the rest of the page"
    assert "Recent actions" in page
    places = set(re.findall(r'data-live(?:-show|-hide)?="([^"]+)"', page))
    assert places <= set(state_of(admin_client, "?summary"))


def test_the_first_page_is_as_before_for_who_may_not_see_jobs() -> None:
    page = show(client_of("view_user"), "/admin/")
    assert "data-live" not in page
    assert "Open the dashboard" not in page


def test_a_site_keeps_its_own_first_page() -> None:
    class HostSite(admin.AdminSite):
        index_template = "host/index.html"

    from jobs.admin.dashboard import DashboardAdmin

    own, plain = HostSite(name="own"), admin.AdminSite(name="plain")
    for site in (own, plain):
        site.register(Dashboard, DashboardAdmin)
    assert own.index_template == "host/index.html"
    assert plain.index_template == "admin/jobs/index.html"


@pytest.mark.urls("tests.own_admin")
def test_an_admin_site_of_somebodys_own_has_it_all(admin_client: Client) -> None:
    """At its own address, with its own looks; nothing points to another site, or to pages that it does not have."""
    enqueue("tests.noop")
    claim_one()
    page = show(admin_client, "/office/jobs/dashboard/")
    assert "The office" in page
    assert 'data-live-source="/office/jobs/dashboard/live/?dashboard"' in page
    assert '="/admin/' not in page
    assert 'href=""' not in page
    assert "Open the dashboard" in show(admin_client, "/office/")
    answer = admin_client.get(
        "/office/jobs/dashboard/live/?dashboard", headers={"Accept": "application/json"}
    )
    assert "/admin/" not in answer.content.decode()
    answer = admin_client.post("/office/jobs/dashboard/types/", {"name": "tests.noop", "do": "pause"})
    assert answer["Location"] == "/office/jobs/dashboard/#types"


def test_links_that_a_site_does_not_have_are_left_out() -> None:
    assert Addresses("admin").job("1").endswith("/jobs/job/1/change/")
    assert Addresses("admin").jobs(type="a b").endswith("/jobs/job/?type=a+b")


# -- who may ---------------------------------------------------------------------------------------------------------


def test_strangers_are_sent_to_the_login_and_their_scripts_are_told(client: Client) -> None:
    assert "/admin/login/" in client.get(PAGE)["Location"]
    assert "/admin/login/" in client.post(SWITCH, {"name": "tests.noop", "do": "pause"})["Location"]
    assert client.get(f"{PAGE}live/?dashboard").status_code == 401
    assert not JobTypeState.objects.exists()


def test_staff_without_rights_see_nothing_of_it() -> None:
    client = client_of()
    assert client.get(PAGE).status_code == 403
    assert client.get(f"{PAGE}live/?dashboard").status_code == 403
    assert client.post(SWITCH, {"name": "tests.noop", "do": "pause"}).status_code == 403
    assert "Dashboard" not in show(client, "/admin/")


def test_who_may_see_jobs_sees_neither_workers_nor_types() -> None:
    client = client_of("view_job")
    new_worker(name="miller")
    page = show(client)
    assert "miller" not in page
    assert "Job types" not in page
    state = state_of(client)
    assert "workers" not in state
    assert not any(key.startswith("type.") for key in state)


def test_who_may_only_look_has_no_switches() -> None:
    client = client_of("view_job", "view_worker", "view_jobtypestate")
    new_worker(name="miller")
    page = show(client)
    assert "miller" in page
    assert "tests.noop" in page
    assert "Pause" not in page
    assert client.post(SWITCH, {"name": "tests.noop", "do": "pause"}).status_code == 403
    assert not JobTypeState.objects.exists()


# -- the switches ----------------------------------------------------------------------------------------------------


def switch(client: Client, do: str, name: str = "tests.noop", **more: str) -> str:
    answer = client.post(SWITCH, {"name": name, "do": do, **more}, follow=True)
    assert answer.redirect_chain == [(f"{PAGE}#types", 302)]
    return text_of(answer.content.decode())


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


# -- words, numbers, pictures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (-3, "0 s"),
        (89.9, "89 s"),
        (90, "1 min"),
        (5399, "89 min"),
        (5400, "1 h"),
        (200_000, "2 d"),
    ],
)
def test_durations_in_words(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said
    assert words.duration(timedelta(seconds=seconds)) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0004, "0 ms"),
        (0.25, "250 ms"),
        (0.9999, "1.0 s"),
        (59.9, "59.9 s"),
        (61, "1 min 1 s"),
        (7200, "2 h"),
    ],
)
def test_measured_durations_in_words(seconds: float, said: str) -> None:
    assert words.fine_duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"), [(0, "0"), (9_999, "9,999"), (10_000, "10k"), (12_345, "12.3k"), (1_000_000, "1M")]
)
def test_numbers_in_words(value: int, said: str) -> None:
    assert words.number(value) == said


def test_a_percentile_is_a_value_that_occurred() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, rank) for rank in (50, 95, 99, 100)] == [50, 95, 99, 100]
    assert percentile([7.0], 99) == 7


def test_a_long_queue_is_counted_to_a_bound_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth, "COUNTED", 3)
    monkeypatch.setattr(depth, "COUNTED_OF_A_TYPE", 2)
    enqueue_many("tests.noop", [{}] * 3)
    assert str(depth.read_depth().pending) == "3"
    assert str(depth.read_types(["tests.noop"])["tests.noop"].pending) == "2+"
    enqueue_many("tests.noop", [{}] * 3)
    found = depth.read_depth().pending
    assert found.is_bound or found.is_estimate
    assert str(depth._count(4, 1_234_567.0)) == "≈ 1.2M"
    assert str(depth._count(4, None)) == "3+"


def test_a_chart_shows_what_is_small_beside_what_is_large() -> None:
    now = database.read_clock()
    minute = now.replace(second=0, microsecond=0)
    history = History(now, {minute: Ended(10_000, 1), minute - timedelta(minutes=1): Ended(1, 0)}, False)
    chart = charts.hour_chart(history)
    *_, before, last = chart.bars
    assert len(chart.bars) == 60
    assert before.completed_height >= 2
    assert last.failed_height >= 2
    assert last.failed_y >= 0
    assert last.failed_y + last.failed_height == pytest.approx(last.completed_y)
    assert last.completed_y + last.completed_height == pytest.approx(charts.HEIGHT)
    assert charts.hour_chart(History(now, {}, False)).says == "Last hour: nothing ended."
