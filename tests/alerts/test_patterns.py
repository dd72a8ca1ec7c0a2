"""Failures that belong together are one alert."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from jobs import database, enqueue_many, lifecycle, recovery
from jobs.alerts import patterns, subjects
from jobs.lifecycle import FailureReport
from jobs.models import AlertKind, FailurePattern, Job
from jobs.testing import run_due_jobs
from tests.conftest import Declare
from tests.support.queue.actors import new_worker
from tests.support.queue.alerting import FINAL, OTHER, alerts, fail_for_good, kinds, told_to
from tests.support.servers.webhooks import Webhook

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _alerts_are_on(settings: Any, webhook: Webhook) -> None:
    settings.JOBS = told_to(webhook)


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
    assert facts["count"] == 3
    assert facts["subject"].endswith("tests.noop")
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
    named, by_type = patterns.traits_of(job)
    assert named.subject == "video 7"
    assert by_type.subject.endswith("tests.noop")


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
