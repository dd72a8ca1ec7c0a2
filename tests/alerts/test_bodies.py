"""What arrives: for Slack, for Discord, as JSON; signed, and harmless whatever an error says."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any

import pytest

from jobs import database
from jobs.alerts.bodies import choose_style, make_body
from jobs.alerts.wording import Alert, Kind
from jobs.lifecycle import FailureReport
from jobs.testing import run_due_jobs
from tests.support.queue.alerting import SECRET, alerts, fail_for_good, told_to
from tests.support.servers.webhooks import Webhook

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _alerts_are_on(settings: Any, webhook: Webhook) -> None:
    settings.JOBS = told_to(webhook)


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
    alert = alert_about("no")
    assert json.loads(make_body(alert, "json"))["held_back"] == 2
    alone = replace(alert, held_back=0)
    assert alert.text.startswith(alone.text)
    assert "2" in alert.text.removeprefix(alone.text)


def test_braces_in_an_error_are_text() -> None:
    assert "{job.__class__}" in alert_about("{job.__class__} {0}").text


def test_long_and_unstorable_facts_are_cut_and_cleaned(webhook: Webhook) -> None:
    fail_for_good(FailureReport("E", "\ud800\0" + "x" * 9000, permanent=True))
    (alert,) = alerts()
    assert len(alert.payload["facts"]["error"]) == 500
    run_due_jobs()
    assert len(webhook.requests) == 1
