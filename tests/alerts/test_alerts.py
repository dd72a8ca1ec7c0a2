"""Alerts: what happens in the queue is told, at a rate."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from jobs import conf, database, enqueue, enqueue_many, fleet, lifecycle, recovery
from jobs.alerts.sending import is_due, send
from jobs.alerts.wording import UNKNOWN, Kind
from jobs.exceptions import QueueFull
from jobs.models import AlertKind, FailurePattern, Job
from jobs.testing import run_due_jobs
from tests.conftest import Declare
from tests.support.queue.actors import a_dead_process, claim_one, expire, new_worker, race
from tests.support.queue.alerting import FINAL, alerts, fail_for_good, kinds, told_to
from tests.support.queue.breakers import fail_one
from tests.support.servers.webhooks import Webhook

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _alerts_are_on(settings: Any, webhook: Webhook) -> None:
    settings.JOBS = told_to(webhook)


# -- what is told ------------------------------------------------------------------------------------------------------


def recover_one() -> None:
    job = enqueue("tests.noop")
    claim_one()
    expire(job.id)
    recovery.end_expired_leases()


def fall_silent() -> None:
    new_worker(last_heartbeat=database.now_minus(timedelta(hours=1)))
    recovery.mark_offline()


def die() -> None:
    recovery.bury_the_dead([a_dead_process().pk])


def start_and_stop() -> None:
    worker = fleet.register(name="w", job_types=[], capabilities=[], concurrency=1)
    fleet.say_goodbye(worker)


def open_a_breaker() -> None:
    for _ in range(conf.current().breaker_failures):
        fail_one("here.charge")


@pytest.mark.parametrize(
    ("happen", "told"),
    [
        (recover_one, ["stale_job_recovered"]),
        (fail_for_good, ["job_max_retries_exceeded"]),
        (fall_silent, ["worker_offline"]),
        (die, ["worker_offline"]),
        (start_and_stop, ["worker_startup", "worker_shutdown"]),
        (open_a_breaker, ["breaker_opened"]),
    ],
)
def test_what_happens_is_told(
    webhook: Webhook, declare: Declare, happen: Callable[[], object], told: list[str]
) -> None:
    declare("here.charge", breaker="payments", max_attempts=9)
    happen()
    assert kinds() == told
    run_due_jobs(limit=len(told))
    assert sorted(request.json["kind"] for request in webhook.requests) == sorted(told)
    for request in webhook.requests:
        assert UNKNOWN not in request.json["text"]
        assert "{" not in request.json["text"]


def test_a_queue_that_grows_too_long_is_told_even_when_it_is_full(webhook: Webhook, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "WARN_DEPTH": 2, "MAX_DEPTH": 3}
    enqueue_many("tests.noop", [{}] * 3)
    with pytest.raises(QueueFull):
        enqueue("tests.noop")
    (alert,) = alerts()
    assert (alert.payload["kind"], alert.payload["facts"]) == ("queue_depth_high", {"depth": 3, "limit": 2})


def test_what_is_rolled_back_is_not_told(webhook: Webhook) -> None:
    enqueue("tests.noop")
    lease = claim_one().lease
    with transaction.atomic():
        lifecycle.fail(lease, FINAL)
        transaction.set_rollback(True)
    assert alerts() == []


def test_without_a_url_nothing_is_written(settings: Any) -> None:
    settings.JOBS = {}
    for happen in (recover_one, fail_for_good, fall_silent, start_and_stop):
        happen()
    assert alerts() == []
    assert not AlertKind.objects.exists()
    assert not FailurePattern.objects.exists()


def test_trouble_with_alerts_does_not_trouble_the_queue(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.alerts.watching.send", lambda *args, **options: 1 / 0)
    job_id = fail_for_good()
    assert Job.objects.get(pk=job_id).status == "failed"
    assert alerts() == []


# -- the rate ----------------------------------------------------------------------------------------------------------


def test_one_per_kind_and_the_next_says_how_many_were_held_back(webhook: Webhook) -> None:
    for _ in range(3):
        send(Kind.WORKER_OFFLINE, {"worker": "w"})
    send(Kind.WORKER_STARTUP, {"worker": "w"})
    assert sorted(kinds()) == ["worker_offline", "worker_startup"]
    AlertKind.objects.update(sent_at=database.now_minus(timedelta(seconds=301)))
    send(Kind.WORKER_OFFLINE, {"worker": "w"})
    assert alerts()[-1].payload["held_back"] == 2
    row = AlertKind.objects.get(pk="worker_offline")
    assert (row.sent, row.suppressed, row.suppressed_since) == (2, 2, 0)


def test_of_a_fleet_that_notices_the_same_one_tells(webhook: Webhook) -> None:
    sent = race([lambda: send(Kind.WORKER_OFFLINE, {"worker": "w"})] * 6)
    assert sorted(sent) == [False] * 5 + [True]
    assert len(alerts()) == 1
    assert AlertKind.objects.get().suppressed == 5


def test_a_clock_that_was_set_back_silences_nobody() -> None:
    now, limit = database.read_clock(), timedelta(minutes=5)
    assert is_due(None, now, limit)
    assert not is_due(now, now, limit)
    assert not is_due(now - limit / 2, now, limit)
    assert is_due(now - limit, now, limit)
    assert is_due(now + timedelta(days=1), now, limit)
