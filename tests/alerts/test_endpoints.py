"""An endpoint that is dead, slow or hostile harms neither the queue nor its secrets."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from jobs import conf, database, lifecycle
from jobs.alerts.sending import send
from jobs.alerts.wording import Kind
from jobs.conf import find_problems
from jobs.models import AlertKind, Attempt, Event, FailurePattern, Job
from jobs.testing import run_due_jobs
from tests.support.queue.actors import claim_one, new_worker
from tests.support.queue.alerting import FINAL, SECRET, alerts, fail_for_good, kinds, told_to
from tests.support.servers.webhooks import Webhook, answers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _alerts_are_on(settings: Any, webhook: Webhook) -> None:
    settings.JOBS = told_to(webhook)


def run_until_given_up() -> list[Any]:
    return run_due_jobs(ahead=timedelta(days=1), raise_errors=False)


def test_a_dead_endpoint_is_given_up_and_leaves_no_failed_job_nor_another_alert(webhook: Webhook) -> None:
    webhook.behave = answers("500 Oh")
    fail_for_good()
    runs = run_until_given_up()
    assert [run.status for run in runs] == ["waiting"] * 4 + ["completed"]
    assert (runs[-1].result["delivered"], runs[-1].result["code"]) == (False, "bad_status")
    assert "500" in runs[-1].result["reason"]
    assert len(alerts()) == 1
    assert AlertKind.objects.get().undelivered == 1


def test_a_refusal_is_not_tried_again(webhook: Webhook) -> None:
    webhook.behave = answers("404 Not Found")
    fail_for_good()
    assert [run.status for run in run_until_given_up()] == ["completed"]
    assert len(webhook.requests) == 1


def test_the_endpoint_may_ask_for_patience_but_not_for_ever(webhook: Webhook) -> None:
    webhook.behave = answers("429 Slow\r\nRetry-After: 99999")
    fail_for_good()
    run_due_jobs(limit=1)
    (alert,) = alerts()
    assert alert.status == "waiting"
    assert alert.run_at - database.read_clock() <= timedelta(minutes=10)


def test_an_alert_whose_worker_dies_is_no_reason_for_another(webhook: Webhook) -> None:
    send(Kind.WORKER_OFFLINE, {"worker": "w"})
    Job.objects.update(max_attempts=1)
    worker = new_worker()
    claim_one(worker)
    lifecycle.recover_lost(worker.pk, "it is gone")
    assert kinds() == ["worker_offline"]
    assert alerts()[0].status == "failed"


def test_an_alert_that_cannot_run_is_no_reason_for_another(webhook: Webhook) -> None:
    send(Kind.WORKER_OFFLINE, {"worker": "w"})
    lifecycle.fail(claim_one().lease, FINAL)
    assert kinds() == ["worker_offline"]


def test_a_private_address_is_refused_unless_allowed(webhook: Webhook, settings: Any) -> None:
    settings.JOBS = {"ALERT_WEBHOOK_URL": f"https://127.0.0.1:{webhook.port}/hook/hidden"}
    fail_for_good()
    (run,) = run_due_jobs()
    assert (run.result["delivered"], run.result["code"]) == (False, "private_address")
    assert "127.0.0.1" in run.result["reason"]
    assert webhook.connections == 0


@pytest.mark.parametrize("status", ["500 Oh", "404 No", "302 Found", "junk"])
def test_neither_the_url_nor_the_secret_is_kept_or_logged(
    webhook: Webhook, caplog: pytest.LogCaptureFixture, status: str
) -> None:
    caplog.set_level(logging.DEBUG)
    webhook.behave = answers(status)
    fail_for_good()
    run_until_given_up()
    kept = [
        repr(row)
        for model in (Job, Attempt, Event, AlertKind, FailurePattern)
        for row in model._default_manager.values()
    ]
    for text in [*kept, *(record.getMessage() for record in caplog.records), repr(conf.current())]:
        assert "hidden" not in text
        assert SECRET not in text


@pytest.mark.parametrize(
    "values",
    [
        {"ALERT_WEBHOOK_URL": "http://hooks.example.org/hidden"},
        {"ALERT_WEBHOOK_URL": "ftp://hidden"},
        {"ALERT_WEBHOOK_URL": "https://u:hidden@a/"},
        {"ALERT_WEBHOOK_URL": 7},
        {"ALERT_WEBHOOK_SECRET": "hidden"},
        {"ALERT_FORMAT": "teams"},
        {"ALERT_TIMEOUT": "2m"},
        {"ALERT_PATTERN_JOBS": 1},
    ],
)
def test_wrong_settings_are_refused_at_start_up_and_secrets_never_quoted(values: dict[str, Any]) -> None:
    (problem,) = find_problems(values)
    assert "hidden" not in problem
