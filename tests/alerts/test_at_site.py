"""Alerts that the site delivers itself, in its own process: which, when, and in whose name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_started
from django.test.client import ClientHandler

from jobs import database, enqueue, lifecycle, recovery, watch
from jobs.alerts import subjects
from jobs.alerts.at_site import LATE, Courier
from jobs.alerts.wording import Alert, Kind
from jobs.models import AlertKind, Job, Status, Worker, WorkerKind
from jobs.signals import raise_alarm
from tests.support.processes import wait_until
from tests.support.queue.actors import a_dead_process, age, claim_one, expire, new_worker, outcomes_of
from tests.support.queue.alerting import alerts, fail_for_good, kinds, told_to
from tests.support.servers.webhooks import Webhook, answers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _alerts_are_on(settings: Any, webhook: Webhook) -> None:
    settings.JOBS = told_to(webhook)


def an_alert() -> Job:
    raise_alarm("worker_startup", worker="w")
    return alerts()[-1]


# -- delivering --------------------------------------------------------------------------------------------------------


def test_it_is_claimed_posted_and_completed_as_by_a_worker(webhook: Webhook) -> None:
    job = an_alert()
    Courier().deliver()
    job.refresh_from_db()
    assert (job.status, job.result) == (Status.COMPLETED, {"delivered": True, "status": 200})
    assert job.processed_by_worker_name.startswith("site ")
    assert [request.json["id"] for request in webhook.requests] == [job.pk]
    assert not Worker.objects.exists()


def test_what_goes_wrong_is_tried_again_later(webhook: Webhook) -> None:
    webhook.behave = answers("500 Oh")
    job = an_alert()
    Courier().deliver()
    job.refresh_from_db()
    assert (job.status, outcomes_of(job.pk)) == (Status.WAITING, ["failed"])
    assert not Worker.objects.exists()


def test_a_site_that_died_while_it_delivered_is_no_worker_that_is_lost(webhook: Webhook) -> None:
    job = an_alert()
    dead = a_dead_process(kind=WorkerKind.SITE, types=["jobs.alert"])
    (claimed,) = lifecycle.claim(dead, 1)
    recovery.sweep()
    job.refresh_from_db()
    assert (job.status, outcomes_of(job.pk)) == (Status.PENDING, ["lost"])
    assert claimed.lease.job_id == job.pk
    assert kinds() == ["worker_startup"], "nothing about an alert, or the site, is another alert"


def delivers(*alive: Worker) -> bool:
    courier = Courier()
    courier.deliver_what_waits(alive)
    if courier._thread:
        courier._thread.join(60)
    return courier._thread is not None


def test_living_workers_have_some_time_to_take_it_and_the_others_none() -> None:
    alert = an_alert()
    assert not delivers(new_worker())
    age([alert.pk], LATE.total_seconds() + 1)
    assert delivers(new_worker()), "they are busy, or hang"


@pytest.mark.parametrize("unfit", [{"types": ["tests.noop"]}, {"disabled": True}, {"draining": True}])
def test_workers_that_take_no_alerts_are_not_waited_for(unfit: dict[str, Any]) -> None:
    an_alert()
    assert delivers(new_worker(**unfit))


def test_without_an_alert_nothing_begins() -> None:
    assert not delivers()


# -- what is told ------------------------------------------------------------------------------------------------------


def test_that_no_worker_is_left_is_told_although_another_loss_was_told_a_moment_ago() -> None:
    last = new_worker()
    recovery.bury_the_dead([a_dead_process().pk, a_dead_process().pk])
    assert [job.payload["facts"]["left"] for job in alerts()] == [1]
    Worker.objects.filter(pk=last.pk).update(last_heartbeat=database.now_minus(timedelta(hours=1)))
    for _ in range(2):
        recovery.mark_offline()
    assert [job.payload["facts"]["left"] for job in alerts()] == [1, 0]
    Worker.objects.filter(pk=last.pk).update(status="idle")
    recovery.mark_offline()
    assert len(alerts()) == 2, "a worker that comes and goes is told once in a while"
    assert sorted(AlertKind.objects.values_list("kind", "suppressed")) == [
        ("worker_offline", 1),
        ("worker_offline.last", 1),
    ]


def test_the_text_says_what_the_job_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "_namers", [lambda job: "video 7 “Film”"])
    fail_for_good()
    lost = enqueue("tests.noop")
    claim_one(new_worker(types=["tests.noop"]))
    expire(lost.pk)
    recovery.end_expired_leases()
    for job in alerts():
        alert = Alert(Kind(job.payload["kind"]), job.payload["facts"], job.payload["at"])
        assert job.payload["facts"]["subject"] == "video 7 “Film”"
        assert "video 7 “Film”" in alert.text
    assert kinds() == ["job_max_retries_exceeded", "stale_job_recovered"]


# -- kinds -------------------------------------------------------------------------------------------------------------


def test_without_the_kind_for_patterns_every_failure_is_told_by_itself(settings: Any) -> None:
    chosen = ["job_max_retries_exceeded"]
    settings.JOBS = {**settings.JOBS, "ALERT_KINDS": chosen, "ALERT_RATE_LIMIT": "1ms"}
    for _ in range(4):
        fail_for_good()
    assert kinds() == chosen * 4


def test_without_the_kind_for_single_failures_patterns_are_told(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "ALERT_KINDS": ("job_failed_pattern",)}
    for _ in range(4):
        fail_for_good()
    assert kinds() == ["job_failed_pattern"]


# -- the thread --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sender", [ClientHandler, WSGIHandler])
def test_neither_a_test_client_nor_a_live_server_of_a_test_starts_it(sender: type) -> None:
    request_started.send(sender=sender, environ={})
    assert not watch._started


def test_one_look_finds_the_dead_and_delivers_the_news(webhook: Webhook) -> None:
    a_dead_process(name="poor")
    keeper = watch.Watch()
    keeper.look()
    keeper.look()
    wait_until(lambda: [request.json["facts"]["worker"] for request in webhook.requests] == ["poor"])
    wait_until(lambda: not Worker.objects.filter(kind=WorkerKind.SITE).exists())
    assert not Job.objects.active().exists()
