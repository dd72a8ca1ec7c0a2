"""GET /metrics: what it says, that it moves, who may read it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import OperationalError
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from jobs import database, enqueue, enqueue_many, lifecycle, statistics, workflow
from jobs.lifecycle import FailureReport
from jobs.metrics import catalogue, depth
from jobs.metrics.exposition import Metric, Sample, render
from jobs.metrics.readings import read
from jobs.models import AlertKind, Worker
from tests.conftest import Declare
from tests.support.queue.actors import claim_one, new_worker
from tests.support.queue.breakers import open_breaker
from tests.support.queue.factories import JobFactory
from tests.support.queue.scraping import TOKEN, Samples, parse

NO = FailureReport("ValueError", "no")

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_has_to_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "SETTLED_AFTER", 0)


def scrape() -> Samples:
    statistics.count_minutes()
    return parse(render(read()))


# -- what it says ------------------------------------------------------------------------------------------------------


def test_every_declared_metric_is_there_under_its_kind() -> None:
    text = render(read())
    for metric in catalogue.ALL:
        assert f"# TYPE {metric.name} {metric.kind}\n" in text
        assert f"# HELP {metric.name} " in text
    families = [family.name for family in text_string_to_metric_families(text)]
    assert len(families) == len(set(families)) == len(catalogue.ALL)


def test_every_sample_has_the_labels_of_its_metric() -> None:
    _let_everything_happen()
    for metric, samples in read():
        expected = {*metric.labels, *(["le"] if metric.kind == "histogram" else [])}
        assert samples, metric.name
        for sample in samples:
            assert set(sample.labels) == (expected if sample.part in ("", "bucket") else set(metric.labels))


def _let_everything_happen() -> None:
    worker = new_worker(name="w1")
    enqueue_many("tests.noop", [{}] * 4, max_attempts=1)
    completed, failed, _lost, _ = lifecycle.claim(worker, 4)
    lifecycle.complete(completed.lease)
    lifecycle.fail(failed.lease, NO)
    lifecycle.recover_lost(worker.pk, "it is gone")
    enqueue("tests.noop")
    open_breaker("payments")
    AlertKind.objects.create(kind="worker_offline", sent=2, suppressed=3, undelivered=1)
    statistics.count_minutes()


def test_every_declared_metric_moves() -> None:
    before = scrape()
    _let_everything_happen()
    after = scrape()
    moved = {name[0] for name, value in after.items() if before.get(name) != value}
    still = [metric.name for metric in catalogue.ALL if not set(metric.series) <= moved]
    assert still == ["sprocket_info"]  # its label is what it says


def test_counters_and_histograms_say_what_ended_how() -> None:
    _let_everything_happen()
    said = scrape()
    assert said["sprocket_jobs_total", "tests.noop", "completed"] == 1
    assert said["sprocket_jobs_total", "tests.noop", "failed"] == 1
    assert said["sprocket_jobs_total", "tests.noop", "lost"] == 2
    assert said["sprocket_failures_total", "tests.noop"] == 3
    assert said["sprocket_stale_recoveries_total", "tests.noop"] == 2
    assert said["sprocket_max_retries_exceeded_total", "tests.noop"] == 3
    assert said["sprocket_job_run_seconds_count", "tests.noop"] == 2
    assert said["sprocket_job_run_seconds_bucket", "tests.noop", "+Inf"] == 2
    assert said["sprocket_job_wait_seconds_count", "tests.noop"] == 1
    assert said["sprocket_job_wait_seconds_sum", "tests.noop"] >= 0
    assert said["sprocket_alerts_total", "worker_offline", "suppressed"] == 3


def test_jobs_are_counted_by_type_status_and_priority() -> None:
    enqueue_many("tests.noop", [{}] * 2, priority=-200)
    lifecycle.complete(claim_one().lease)
    lifecycle.fail(claim_one().lease, FailureReport("ValueError", "no", permanent=True))
    with workflow("w") as flow:
        flow.add("tests.noop", after=[flow.add("tests.noop")])
    enqueue_many("tests.noop", [{}] * 2)
    for priority in (-7, 0, 4):
        enqueue("tests.noop", priority=priority)
    enqueue("tests.noop", priority=99)
    enqueue("work.record", {"log": ""}, priority=-100)
    claim_one()
    enqueue_many("work.record", [{"log": ""}] * 2, delay=60)
    JobFactory(type="of nobody", priority=10)
    said = {name[1:]: value for name, value in scrape().items() if name[0] == "sprocket_queue_jobs" and value}
    assert said == {
        ("of nobody", "pending", "low"): 1,
        ("tests.noop", "pending", "high"): 3,
        ("tests.noop", "pending", "normal"): 3,
        ("tests.noop", "pending", "low"): 1,
        ("tests.noop", "waiting", "normal"): 1,
        ("tests.noop", "failed", "high"): 1,
        ("work.record", "processing", "high"): 1,
        ("work.record", "waiting", "normal"): 2,
    }


def test_what_the_site_knows_is_there_before_anything_happens(declare: Declare) -> None:
    """Otherwise nothing could scale down with an empty queue, nor notice the first failure of a type."""
    declare("here.new")
    said = scrape()
    for status in ("pending", "waiting", "processing", "failed"):
        assert said["sprocket_queue_jobs", "here.new", status, "normal"] == 0
    assert said["sprocket_jobs_total", "here.new", "failed"] == 0
    assert said["sprocket_max_retries_exceeded_total", "here.new"] == 0
    assert said["sprocket_pending_age_seconds", "here.new"] == 0
    assert said["sprocket_alerts_total", "worker_offline", "sent"] == 0


def test_the_age_of_the_next_job_is_told_per_type() -> None:
    JobFactory(run_at=database.now_minus(timedelta(seconds=500)))
    JobFactory(type="work.record")
    said = scrape()
    assert 500 <= said["sprocket_pending_age_seconds", "tests.noop"] < 5_000
    assert 0 <= said["sprocket_pending_age_seconds", "work.record"] < 500


def test_no_status_is_counted_further_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth, "COUNTED", 2)
    enqueue_many("tests.noop", [{}] * 3)
    enqueue_many("tests.noop", [{}] * 3, delay=60)
    enqueue("work.record", {"log": ""})
    said = scrape()
    assert said["sprocket_queue_jobs", "tests.noop", "pending", "normal"] == 2
    assert said["sprocket_queue_jobs", "tests.noop", "waiting", "normal"] == 2
    assert said["sprocket_queue_jobs", "work.record", "pending", "normal"] == 1


def test_workers_are_counted_by_status_and_each_has_an_age() -> None:
    new_worker(name="a", last_heartbeat=database.now_minus(timedelta(seconds=100)))
    new_worker(name="b", status="busy")
    new_worker(name="c", disabled=True)
    new_worker(name="d", status="offline")
    new_worker(name="e", last_heartbeat=None)
    gone = new_worker(name="f", status="offline")
    Worker.objects.filter(pk=gone.pk).update(stopped_at=database.now_minus(timedelta(0)))
    said = scrape()
    assert {name[1]: value for name, value in said.items() if name[0] == "sprocket_workers"} == {
        "active": 0,
        "idle": 2,
        "busy": 1,
        "offline": 1,
        "disabled": 1,
        "revoked": 0,
    }
    ages = {
        name[1]: value for name, value in said.items() if name[0] == "sprocket_worker_heartbeat_age_seconds"
    }
    assert sorted(ages) == ["a", "b", "c", "d", "e"]
    assert ages["a"] >= 100 > ages["b"]


def test_a_breaker_has_one_state_and_one_that_never_failed_is_closed(declare: Declare) -> None:
    declare("here.charge", breaker="quiet")
    open_breaker("payments")
    open_breaker("cooled", retry_at=database.now_minus(timedelta(seconds=1)))
    states = {
        name[1]: name[2]
        for name, value in scrape().items()
        if name[0] == "sprocket_breaker_state" and value == 1
    }
    assert states["payments"] == "open"
    assert states["cooled"] == "half-open"
    assert states["quiet"] == "closed"


def test_hostile_names_stay_inside_their_quotes() -> None:
    hostile = 'a"b\\c\nd{},é\t# TYPE x counter'
    JobFactory(type=hostile)
    assert scrape()["sprocket_queue_jobs", hostile, "pending", "normal"] == 1


def test_numbers_are_written_as_prometheus_reads_them() -> None:
    metric = Metric("m", "gauge", "Help with \\ and\nlines.")
    written = render([(metric, [Sample(2**60), Sample(0.1, {"a": "b"}), Sample(1e-7), Sample(float("inf"))])])
    assert written.splitlines() == [
        "# HELP m Help with \\\\ and\\nlines.",
        "# TYPE m gauge",
        "m 1152921504606846976",
        'm{a="b"} 0.1',
        "m 1e-07",
        "m inf",
    ]


# -- who may read it ---------------------------------------------------------------------------------------------------


def answer(client: Client | None = None, **headers: str) -> Any:
    return (client or Client()).get("/metrics", headers=headers)


def staff(*permissions: str, is_staff: bool = True) -> Client:
    user = User.objects.create_user("somebody", is_staff=is_staff)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def test_it_does_not_exist_unless_somebody_asks_for_it() -> None:
    assert answer().status_code == 404
    assert answer(authorization="Bearer ").status_code == 404
    assert answer(authorization="Bearer None").status_code == 404


def test_prometheus_reads_it_with_the_token(settings: Any) -> None:
    settings.JOBS = {"METRICS_TOKEN": TOKEN}
    told = answer(authorization=f"Bearer {TOKEN}")
    assert told.status_code == 200
    assert told["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert told["Cache-Control"] == "no-store"
    assert 'sprocket_info{version="' in told.content.decode()
    assert TOKEN not in told.content.decode()


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"]
)
def test_without_the_token_nobody_does(settings: Any, header: str) -> None:
    settings.JOBS = {"METRICS_TOKEN": TOKEN}
    told = answer(authorization=header) if header else answer()
    assert (told.status_code, told["WWW-Authenticate"]) == (401, "Bearer")
    assert "sprocket_" not in told.content.decode()


def test_guesses_are_limited_and_the_token_is_not(settings: Any) -> None:
    settings.JOBS = {"METRICS_TOKEN": TOKEN, "FAILED_AUTH_RATE": 2}
    guesses = [answer(authorization="Bearer guess") for _ in range(3)]
    assert [told.status_code for told in guesses] == [401, 401, 429]
    assert int(guesses[-1]["Retry-After"]) > 0
    assert answer(authorization=f"Bearer {TOKEN}").status_code == 200


@pytest.mark.parametrize("with_token", [False, True])
def test_staff_who_may_see_jobs_look_in_with_their_session(settings: Any, with_token: bool) -> None:
    settings.JOBS = {"METRICS_TOKEN": TOKEN} if with_token else {}
    assert answer(staff("view_job")).status_code == 200


@pytest.mark.parametrize(("permission", "is_staff"), [("view_worker", True), ("view_job", False)])
def test_other_people_do_not(settings: Any, permission: str, is_staff: bool) -> None:
    assert answer(staff(permission, is_staff=is_staff)).status_code == 404


def test_a_short_token_is_refused_at_start_up_and_never_quoted() -> None:
    from jobs.conf import JobsSettings, find_problems

    (problem,) = find_problems({"METRICS_TOKEN": "tooshort"})
    assert "tooshort" not in problem
    assert TOKEN not in repr(JobsSettings(metrics_token=TOKEN))


def test_it_is_only_read(settings: Any) -> None:
    settings.JOBS = {"METRICS_TOKEN": TOKEN}
    assert Client().post("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 405


def test_without_the_database_it_says_so(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise OperationalError("connection refused at 10.0.0.7")

    settings.JOBS = {"METRICS_TOKEN": TOKEN}
    with monkeypatch.context() as away:
        away.setattr("jobs.database.fetch", fail)
        told = answer(authorization=f"Bearer {TOKEN}")
    assert told.status_code == 503
    assert "10.0.0.7" not in told.content.decode()
