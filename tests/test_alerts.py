"""Alerts, from what happens in the queue to what arrives at a real server."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from jobs import conf, database, enqueue, enqueue_many, fleet, lifecycle, recovery
from jobs.alerts import patterns, subjects
from jobs.alerts.bodies import choose_style, make_body
from jobs.alerts.sending import is_due, send
from jobs.alerts.wording import Alert, Kind
from jobs.conf import find_problems
from jobs.exceptions import QueueFull
from jobs.lifecycle import FailureReport
from jobs.models import AlertKind, Attempt, Event, FailurePattern, Job
from jobs.testing import run_due_jobs
from tests.actors import claim_one, expire, new_worker, race
from tests.breakers import fail_one
from tests.conftest import Declare, StartManage
from tests.support import wait_until
from tests.webhooks import Webhook, answers, serving
from tests.workers import QUICK, wait_for_worker

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "a-secret-of-both-sides"
FINAL = FailureReport("ValueError", "no such file '/tmp/7'", permanent=True)
OTHER = FailureReport("OSError", "disk full", permanent=True)


@pytest.fixture
def webhook(settings: Any) -> Iterator[Webhook]:
    """A server that the site's alerts go to."""
    with serving() as webhook:
        settings.JOBS = {
            "ALERT_WEBHOOK_URL": webhook.url("/hook/hidden"),
            "ALERT_ALLOW_PRIVATE": True,
            "ALERT_WEBHOOK_SECRET": SECRET,
            "RECOVERY_GRACE": "1ms",
        }
        yield webhook


def fail_for_good(failure: FailureReport = FINAL, type_name: str = "tests.noop") -> str:
    job = enqueue(type_name, priority=-100)
    lifecycle.fail(claim_one(new_worker(types=[type_name])).lease, failure)
    return str(job.id)


def alerts() -> list[Job]:
    return list(Job.objects.filter(type="jobs.alert").order_by("pk"))


def kinds() -> list[str]:
    return [job.payload["kind"] for job in alerts()]


# -- what is told ------------------------------------------------------------------------------------------------------


def recover_one() -> None:
    job = enqueue("tests.noop")
    claim_one()
    expire(job.id)
    recovery.end_expired_leases()


def fall_silent() -> None:
    new_worker(last_heartbeat=database.now_minus(timedelta(hours=1)))
    recovery.mark_offline()


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
        assert "unknown" not in request.json["text"]
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


# -- how it arrives ----------------------------------------------------------------------------------------------------


def test_it_is_signed_and_says_everything(webhook: Webhook) -> None:
    job_id = fail_for_good()
    (run,) = run_due_jobs()
    (request,) = webhook.requests
    told = request.json
    assert told["kind"] == "job_max_retries_exceeded"
    assert told["facts"]["job"] == job_id
    assert told["facts"]["type"] == "tests.noop"
    assert job_id in told["text"]
    assert "no such file" in told["text"]
    assert told["id"] == request.headers["x-sprocket-delivery"] == run.id
    moment, digest = (part.split("=")[1] for part in request.headers["x-sprocket-signature"].split(","))
    expected = hmac.new(SECRET.encode(), moment.encode() + b"." + request.body, hashlib.sha256).hexdigest()
    assert digest == expected
    assert abs(int(moment) - database.read_clock().timestamp()) < 300
    assert run.result == {"delivered": True, "status": 200}


def test_without_a_secret_it_is_not_signed(webhook: Webhook, settings: Any) -> None:
    settings.JOBS = {key: value for key, value in settings.JOBS.items() if key != "ALERT_WEBHOOK_SECRET"}
    fail_for_good()
    run_due_jobs()
    assert "x-sprocket-signature" not in webhook.requests[0].headers


@pytest.mark.parametrize(
    ("setting", "url", "style"),
    [
        ("auto", "https://hooks.slack.com/services/T/B/x", "slack"),
        ("auto", "https://discord.com/api/webhooks/1/x", "discord"),
        ("auto", "https://ptb.discord.com/api/webhooks/1/x", "discord"),
        ("auto", "https://hooks.slack.com.evil.example/x", "json"),
        ("auto", "https://notdiscord.com/x", "json"),
        ("slack", "https://chat.example.org/x", "slack"),
        ("json", "https://hooks.slack.com/x", "json"),
    ],
)
def test_the_body_goes_by_the_address_or_the_setting(setting: str, url: str, style: str) -> None:
    assert choose_style(setting, url) == style


HOSTILE = "<!channel> @everyone <https://evil.example|ok> & \u202e\n" + "x" * 5000


def alert_about(error: str) -> Alert:
    return Alert(
        Kind.JOB_MAX_RETRIES_EXCEEDED, {"job": "1", "type": "t", "error": error}, "2026-01-01", "id", 2
    )


def test_slack_calls_nobody_and_shows_no_foreign_links() -> None:
    body = json.loads(make_body(alert_about(HOSTILE), "slack"))
    assert list(body) == ["text"]
    assert "<" not in body["text"]
    assert "&lt;!channel&gt;" in body["text"]
    assert len(body["text"]) <= 3000


def test_discord_calls_nobody_and_gets_no_more_than_it_takes() -> None:
    body = json.loads(make_body(alert_about(HOSTILE), "discord"))
    assert body["allowed_mentions"] == {"parse": []}
    assert len(body["content"]) == 2000


def test_what_was_held_back_is_said() -> None:
    assert json.loads(make_body(alert_about("no"), "json"))["held_back"] == 2
    assert "2 more of this kind" in alert_about("no").text


def test_braces_in_an_error_are_text() -> None:
    assert "{job.__class__}" in alert_about("{job.__class__} {0}").text


def test_long_and_unstorable_facts_are_cut_and_cleaned(webhook: Webhook) -> None:
    fail_for_good(FailureReport("E", "\ud800\0" + "x" * 9000, permanent=True))
    (alert,) = alerts()
    assert len(alert.payload["facts"]["error"]) == 500
    run_due_jobs()
    assert len(webhook.requests) == 1


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


# -- patterns ----------------------------------------------------------------------------------------------------------


def test_failures_alike_are_one_alert_and_later_ones_none(webhook: Webhook) -> None:
    for number in range(6):
        AlertKind.objects.filter(pk="job_max_retries_exceeded").update(
            sent_at=None
        )  # no limit hides anything
        fail_for_good(
            FailureReport("ValueError", f"no such file '/tmp/{number}' (0x{number}f)", permanent=True)
        )
    assert kinds() == ["job_max_retries_exceeded"] * 2 + ["job_failed_pattern"]
    facts = alerts()[-1].payload["facts"]
    assert (facts["count"], facts["subject"]) == (3, "type tests.noop")
    run_due_jobs()
    assert len(webhook.requests) == 3


def test_other_errors_are_other_patterns(webhook: Webhook) -> None:
    for failure in (FINAL, OTHER, FINAL, OTHER):
        fail_for_good(failure)
    assert "job_failed_pattern" not in kinds()
    assert sorted(FailurePattern.objects.values_list("count", flat=True)) == [2, 2]


def test_failures_about_the_same_thing_are_one_alert_whatever_their_types(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch, declare: Declare
) -> None:
    monkeypatch.setattr(subjects, "_namers", [lambda job: "video 7"])
    for name in ("here.a", "here.b", "here.c"):
        declare(name)
        fail_for_good(OTHER, name)
    assert kinds().count("job_failed_pattern") == 1
    assert alerts()[-1].payload["facts"]["subject"] == "video 7"


def test_a_namer_that_raises_is_passed_over(webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    def bad(job: Job) -> str:
        raise RuntimeError("no")

    monkeypatch.setattr(subjects, "_namers", [bad, lambda job: "video 7"])
    job = Job.objects.get(pk=fail_for_good())
    assert [trait.subject for trait in patterns.traits_of(job)] == ["video 7", "type tests.noop"]


def test_a_pattern_is_forgotten_after_its_window(webhook: Webhook) -> None:
    fail_for_good()
    fail_for_good()
    FailurePattern.objects.update(started_at=database.now_minus(timedelta(hours=2)))
    fail_for_good()
    assert FailurePattern.objects.get().count == 1
    FailurePattern.objects.update(last_at=database.now_minus(timedelta(hours=2)))
    recovery.sweep()
    assert not FailurePattern.objects.exists()


def test_many_jobs_that_are_lost_at_once_are_one_alert(webhook: Webhook) -> None:
    worker = new_worker(types=["tests.noop"])
    enqueue_many("tests.noop", [{}] * 20, max_attempts=1)
    lifecycle.claim(worker, 20)
    lifecycle.recover_lost(worker.pk, "it is gone")
    assert sorted(kinds()) == ["job_failed_pattern", "stale_job_recovered"]
    assert {job.payload["facts"]["count"] for job in alerts()} == {20}


# -- a bad endpoint ----------------------------------------------------------------------------------------------------


def run_until_given_up() -> list[Any]:
    return run_due_jobs(ahead=timedelta(days=1), raise_errors=False)


def test_a_dead_endpoint_is_given_up_and_leaves_no_failed_job_nor_another_alert(webhook: Webhook) -> None:
    webhook.behave = answers("500 Oh")
    fail_for_good()
    runs = run_until_given_up()
    assert [run.status for run in runs] == ["waiting"] * 4 + ["completed"]
    assert runs[-1].result == {"delivered": False, "reason": "it answered 500"}
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
    assert "its host stands for 127.0.0.1: this machine itself" in run.result["reason"]
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


# -- a real worker -----------------------------------------------------------------------------------------------------


def test_a_worker_delivers_while_the_endpoint_of_others_hangs(start_manage: StartManage, log: str) -> None:
    """Two alerts hang until their timeout; jobs beside them run as if nothing were."""
    with serving(behave=lambda connection, over: over.wait(60)) as webhook:
        environment = {
            **QUICK,
            "JOBS_ALERT_WEBHOOK_URL": webhook.url(),
            "JOBS_ALERT_ALLOW_PRIVATE": "true",
            "JOBS_ALERT_TIMEOUT": "20s",
        }
        worker = start_manage("runworker", "--concurrency", "4", env=environment)
        wait_for_worker(worker)
        wait_until(lambda: webhook.connections >= 1)  # that it has started
        enqueue_many("work.record", [{"log": log}] * 50)
        wait_until(lambda: Job.objects.filter(type="work.record", status="completed").count() == 50)
        assert Job.objects.get(type="jobs.alert").status == "processing"
        webhook.over.set()
        assert worker.poll() is None
