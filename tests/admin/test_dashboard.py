"""The dashboard: what it says, and that everything it says moves by itself."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from jobs import HIGH, database, enqueue, enqueue_many, lifecycle, workflow
from jobs.dashboard.topics import dashboard_topics
from jobs.lifecycle import FailureReport, ProgressReport
from jobs.models import Attempt, Job
from tests.conftest import Declare
from tests.support.pages.admin_pages import EVIL, PERMANENT
from tests.support.pages.codes import codes_on, numbers_in
from tests.support.pages.dashboard_pages import PAGE, show, state_of, words_of
from tests.support.processes import wait_until
from tests.support.queue.actors import claim_one, new_worker

pytestmark = pytest.mark.django_db


def test_an_empty_queue_says_what_to_do_first(admin_client: Client) -> None:
    page = show(admin_client)
    empty = {"nothing_running", "nothing_failed", "nothing_ran", "nothing_scheduled", "no_workers"}
    assert {"first_steps", *empty} <= set(codes_on(page))
    assert "python manage.py runworker" in words_of(page)
    assert 'data-live-show="alert.no_workers" hidden>' in page
    enqueue("tests.noop")
    page = show(admin_client)
    assert "first_steps" not in codes_on(page)
    assert 'data-live-show="alert.no_workers">' in page


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
    said = words_of(show(admin_client))
    assert "OSError × 3 ValueError × 1" in said
    assert "OSError: disk 2 tests.noop" in said, "newest first, the first line of each"


def test_what_waits_for_its_time_is_shown_with_the_reason(admin_client: Client) -> None:
    enqueue("tests.noop", delay=90)
    job = enqueue("tests.noop")
    lifecycle.fail(claim_one().lease, FailureReport("OSError", "busy"))
    (row,) = re.findall(rf'<li data-key="{job.id}">.*?</li>', show(admin_client), re.DOTALL)
    assert "OSError: busy" in row
    tried, _, _ = words_of(row.partition('<span class="sp-quiet sp-cut">')[2]).partition("OSError")
    assert numbers_in(tried) == [1, 3]
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
    assert page.count('data-completed="4" data-failed="1" data-highest="5"') == 2, "of the hour, of the day"
    assert page.count('data-runs="5"') == 1


def test_workers_are_shown_with_what_they_do(admin_client: Client) -> None:
    busy = new_worker(name="busy one", concurrency=4, status="busy")
    sleeper = new_worker(name="sleeper", disabled=True)
    new_worker(name="silent", last_heartbeat=database.now_minus(timedelta(minutes=3)))
    gone = new_worker(name="gone", status="offline", stopped_at=database.now_minus(timedelta(days=2)))
    leaver = new_worker(name="leaver", draining=True)
    enqueue("tests.noop")
    claim_one(busy)
    page = show(admin_client)
    shown = dict(re.findall(r'<li data-key="(\w+)"( data-running.*?)</li>', page, re.DOTALL))
    states = {key: re.findall(r'sp-badge" data-status="(\w+)"', row) for key, row in shown.items()}
    assert 'data-running="1" data-slots="4"' in shown[busy.pk]
    assert "tests.noop" in shown[busy.pk]
    assert 'data-live-time="ago"' in shown[busy.pk]
    assert states[busy.pk] == ["busy"]
    assert states[sleeper.pk][0] == "disabled"
    assert states[leaver.pk] == ["idle", "draining"]
    assert gone.pk not in page
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
    assert len(fragments) == 8
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

    assert wait_until(lambda: read() == read())  # not at once only when a minute begins between the two


def test_what_the_stream_says_has_its_place_on_the_page(admin_client: Client) -> None:
    enqueue("tests.noop")
    page = show(admin_client)
    places = set(re.findall(r'data-live(?:-show|-hide)?="([^"]+)"', page))
    state = state_of(admin_client)
    assert places <= set(state)
    assert set(state) - places <= {"count.ever"}, "that one matters before the first job only"
