"""Live pages: what a stream carries, and who may have it."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from jobs import enqueue, enqueue_many, fleet, lifecycle, staff_tokens, workflow
from jobs.lifecycle import ProgressReport
from jobs.live.hub import hub
from jobs.live.job_topics import jobs_topic
from tests.support.pages.live_pages import _hints_start_afresh as _hints_start_afresh
from tests.support.pages.live_pages import connect as connect
from tests.support.pages.live_pages import somebody
from tests.support.processes import wait_until
from tests.support.queue.actors import claim_one, new_worker
from tests.support.servers.sse import Connect, EventStream

pytestmark = pytest.mark.django_db(transaction=True)

NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


# -- what a page gets ------------------------------------------------------------------------------------------------


def test_a_page_gets_the_state_and_then_what_changes(connect: Connect) -> None:
    job = enqueue("tests.noop")
    stream = connect(f"?job={job.id}")
    assert stream.response.headers["Content-Type"] == "text/event-stream"
    assert stream.response.headers["X-Accel-Buffering"] == "no"
    wait_until(lambda: stream.state.get(f"job.{job.id}.status") == "pending")
    lease = claim_one().lease
    wait_until(lambda: stream.state[f"job.{job.id}.status"] == "processing")
    lifecycle.report_progress([ProgressReport(lease, 40, "<b>half</b> way")])
    wait_until(lambda: stream.state[f"job.{job.id}.percent"] == 40)
    assert stream.state[f"job.{job.id}.step"] == "<b>half</b> way", "a text, not HTML"
    assert set(stream.events[-1][1]) <= {f"job.{job.id}.{key}" for key in ("percent", "step", "eta")}
    lifecycle.complete(lease)
    wait_until(lambda: stream.state[f"job.{job.id}.status"] == "completed")
    assert "retry: " in stream.raw


def test_a_workflow_is_followed_as_a_whole(connect: Connect) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
    stream = connect(f"?workflow={first.workflow_id}")
    wait_until(lambda: stream.state.get(f"job.{second.id}.status") == "waiting")
    lifecycle.complete(claim_one().lease)
    assert wait_until(lambda: stream.state[f"job.{first.id}.status"] == "completed")
    assert wait_until(lambda: stream.state[f"job.{second.id}.status"] == "pending")


def test_progress_reaches_the_page_soon(connect: Connect) -> None:
    """Within a second, once at least: a busy machine is no defect, a page that looks only now and then is.

    Each step is taken right after the last one was seen, so it takes as long as the pause between two looks.
    """
    job = enqueue("tests.noop")
    lease = claim_one().lease
    stream = connect(f"?job={job.id}")
    wait_until(lambda: stream.state)
    delays = [float("inf")]
    percents = iter(range(1, 60))
    while min(delays) >= 1:
        percent = next(percents)
        lifecycle.report_progress([ProgressReport(lease, percent)])
        began = time.monotonic()
        wait_until(lambda p=percent: stream.state[f"job.{job.id}.percent"] == p, interval=0.01)  # type: ignore[misc]
        delays.append(time.monotonic() - began)
    assert len(delays) > 1, "it was measured"


def test_many_changes_become_few_events(connect: Connect) -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    stream = connect(f"?job={job.id}")
    wait_until(lambda: stream.state)
    began = time.monotonic()
    for percent in range(1, 100):
        lifecycle.report_progress([ProgressReport(lease, percent)])
    wait_until(lambda: stream.state[f"job.{job.id}.percent"] == 99)
    took = time.monotonic() - began
    first_state, first_change = 1, 1
    assert len(stream.events) <= first_state + first_change + took / jobs_topic([job.id]).every


def test_after_a_lost_connection_the_page_has_the_present_state(connect: Connect) -> None:
    job = enqueue("tests.noop")
    first = connect(f"?job={job.id}")
    wait_until(lambda: first.state)
    first.close()
    lifecycle.complete(claim_one().lease)
    again = connect(f"?job={job.id}", **{"Last-Event-ID": first.last_event_id})
    assert wait_until(lambda: again.state.get(f"job.{job.id}.status") == "completed")


def test_who_has_the_present_state_is_not_sent_it_again(connect: Connect) -> None:
    job, other = enqueue("tests.noop"), enqueue("tests.noop")
    first = connect(f"?job={job.id}")
    wait_until(lambda: first.state)
    again = connect(f"?job={job.id}", **{"Last-Event-ID": first.last_event_id})
    by_address = connect(f"?job={job.id}&last_event_id={first.last_event_id}")
    lifecycle.cancel([job.id])
    for stream in (again, by_address):
        wait_until(lambda s=stream: s.state)  # type: ignore[misc]
        assert stream.events[0][1] == {f"job.{job.id}.status": "cancelled"}
    assert other.id not in again.raw


def test_json_is_the_present_state_for_who_cannot_have_a_stream(connect: Connect) -> None:
    job = enqueue("tests.noop")
    answer = connect(f"?job={job.id}", Accept="application/json")
    assert answer.status == 200
    assert answer.body()[f"job.{job.id}.status"] == "pending"
    assert hub.pages == 0


def test_a_job_that_does_not_exist_is_no_error(connect: Connect) -> None:
    assert connect("?job=01ARZ3NDEKTSV4RRFFQ69G5FAV", Accept="application/json").body() == {}


@pytest.mark.parametrize("query", ["", "?job=", "?job=1", "?job=%3Cscript%3E", "?workflow=" + "x" * 26])
def test_what_is_no_topic_is_refused(connect: Connect, query: str) -> None:
    answer = connect(query)
    assert (answer.status, answer.body()["error"]) == (400, "bad_topic")


def test_too_many_jobs_are_refused(connect: Connect) -> None:
    ids = enqueue_many("tests.noop", [{}] * 101)
    assert connect("?" + "&".join(f"job={id}" for id in ids)).status == 400


def test_nobody_collects_events_to_compress_them(settings: Settings) -> None:
    settings.MIDDLEWARE = ["django.middleware.gzip.GZipMiddleware", *settings.MIDDLEWARE]
    client = Client(headers={"Accept-Encoding": "gzip"})
    client.force_login(somebody("chief", superuser=True))
    job = enqueue("tests.noop")
    answer: Any = client.get(f"/api/events/?job={job.id}")
    try:
        assert next(iter(answer.streaming_content)).startswith(b"retry: ")
    finally:
        answer.close()
    assert hub.pages == 0


# -- who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("permissions", "staff", "status"),
    [([], True, 403), (["view_worker"], True, 403), (["view_job"], True, 200), (["view_job"], False, 401)],
)
def test_only_staff_who_may_see_jobs_are_told(
    connect: Connect, permissions: list[str], staff: bool, status: int
) -> None:
    job = enqueue("tests.noop")
    user = somebody("clerk", *permissions, staff=staff)
    assert connect(f"?job={job.id}", user=user).status == status
    assert connect(f"?job={job.id}", user=user, Accept="application/json").status == status


def test_strangers_are_told_nothing(live_server: LiveServer) -> None:
    job = enqueue("tests.noop")
    answer = EventStream(f"{live_server.url}/api/events/?job={job.id}")
    assert (answer.status, answer.body()["error"]) == (401, "not_signed_in")


def by_token(live_server: LiveServer, query: str, user: User) -> EventStream:
    token = staff_tokens.issue(user, timedelta(hours=1))
    return EventStream(f"{live_server.url}/api/events/{query}", headers={"Authorization": f"Bearer {token}"})


def test_a_staff_token_opens_the_stream_as_a_session_does(live_server: LiveServer, connect: Connect) -> None:
    job = enqueue("tests.noop")
    stream = by_token(live_server, f"?job={job.id}", somebody("clerk", "view_job"))
    wait_until(lambda: stream.state.get(f"job.{job.id}.status") == "pending")
    lifecycle.cancel(job.id)
    wait_until(lambda: stream.state[f"job.{job.id}.status"] == "cancelled")
    stream.close()
    assert by_token(live_server, f"?job={job.id}", somebody("other", "view_worker")).status == 403
    for wrong in ("Bearer x", "bearer ", f"Bearer {'x' * 5000}"):
        answer = connect(f"?job={job.id}", user=somebody("clerk", "view_job"), Authorization=wrong)
        assert (answer.status, answer.body()["error"]) == (401, "wrong_token"), "whatever the session says"


def test_guessing_tokens_is_limited(live_server: LiveServer, settings: Settings) -> None:
    settings.JOBS = {**settings.JOBS, "FAILED_AUTH_RATE": 2}
    url, guess = f"{live_server.url}/api/events/?job={'0' * 26}", {"Authorization": "Bearer guess"}
    answers = [EventStream(url, headers=guess) for _ in range(3)]
    assert [answer.status for answer in answers] == [401, 401, 429]
    assert answers[2].response.headers["Retry-After"]


def test_workers_are_followed_one_by_one_or_all(connect: Connect, admin_client: Client) -> None:
    one, other = new_worker(), new_worker()
    single, whole = connect(f"?worker={one.pk}"), connect("?worker=all")
    wait_until(lambda: single.state and f"worker.{other.pk}.status" in whole.state)
    assert {name.split(".")[1] for name in single.state} == {one.pk}
    fleet.heartbeat(one, busy=True)
    enqueue("tests.noop")
    claim_one(one)
    for stream in (single, whole):
        wait_until(lambda s=stream: s.state[f"worker.{one.pk}.status"] == "busy")  # type: ignore[misc]
        wait_until(lambda s=stream: s.state[f"worker.{one.pk}.running"] == 1)  # type: ignore[misc]
    admin_client.post(f"/api/workers/{other.pk}/disable")
    assert wait_until(lambda: whole.state[f"worker.{other.pk}.status"] == "disabled")


@pytest.mark.parametrize(
    ("permissions", "statuses"),
    [
        (["view_job"], [200, 403, 403]),
        (["view_worker"], [403, 200, 403]),
        (["change_worker"], [403, 200, 403]),
        (["view_video"], [403, 403, 200]),
        (["view_job", "view_worker", "change_video"], [200, 200, 200]),
    ],
)
def test_each_thing_takes_its_own_permission(
    connect: Connect, permissions: list[str], statuses: list[int]
) -> None:
    user = somebody("clerk", *permissions)
    queries = [f"job={NOBODY}", "worker=all", f"video={NOBODY}"]
    asked = [connect(f"?{query}", user=user, Accept="application/json").status for query in queries]
    assert asked == statuses
    together = connect(f"?{'&'.join(queries)}", user=user, Accept="application/json").status
    assert together == max(statuses)


@pytest.mark.parametrize("query", ["?worker=1", "?video=x", "?video=", "?worker=all&job=1", "?vidoe=1"])
def test_what_is_no_worker_and_no_video_is_refused(connect: Connect, query: str) -> None:
    answer = connect(query)
    assert (answer.status, answer.body()["error"]) == (400, "bad_topic")


def test_a_stream_is_only_read(admin_client: Client) -> None:
    job = enqueue("tests.noop")
    assert admin_client.post(f"/api/events/?job={job.id}").status_code == 405
