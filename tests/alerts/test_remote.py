"""Alerts where all workers are remote: the site delivers them, in the name of whoever holds the lease."""

from __future__ import annotations

from typing import Any

import pytest

from jobs import lifecycle
from jobs.alerts.wording import ABOUT_ALERTS
from jobs.models import AlertKind, Job, Status, Worker, WorkerKind
from tests.support.queue.actors import stored
from tests.support.queue.alerting import alerts, told_to
from tests.support.remote.remote_client import REMOTE, RemoteClient, good, new_remote, refused
from tests.support.servers.webhooks import Webhook, answers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _alerts_are_on(settings: Any, webhook: Webhook) -> None:
    settings.JOBS = told_to(webhook)


@pytest.fixture
def far(declare: Any) -> RemoteClient:
    declare(REMOTE, remote=True)
    return new_remote("far")


@pytest.fixture
def job(far: RemoteClient) -> dict[str, Any]:
    """The alert that this worker has started, claimed by itself."""
    (claimed,) = far.claim(types=[ABOUT_ALERTS])
    return claimed


def proceed(far: RemoteClient, job: dict[str, Any]) -> Any:
    return far.send(f"jobs/{job['job_id']}/proceed", {"token": job["token"]})


def test_the_site_delivers_it_and_says_how_that_went(
    far: RemoteClient, job: dict[str, Any], webhook: Webhook
) -> None:
    assert good(proceed(far, job)) == {"done": True, "percent": 100.0}
    good(far.report("complete", job, result={"delivered": "by me"}))
    (request,) = webhook.requests
    assert request.json["kind"] == "worker_startup"
    row = stored(job["job_id"])
    assert (row.status, row.result) == (Status.COMPLETED, {"delivered": True, "status": 200})


def test_it_is_not_completed_without_having_been_delivered(
    far: RemoteClient, job: dict[str, Any], webhook: Webhook
) -> None:
    good(far.report("complete", job, result={"delivered": "by me"}))
    assert len(webhook.requests) == 1
    assert stored(job["job_id"]).result == {"delivered": True, "status": 200}


def test_what_goes_wrong_ends_the_attempt_and_at_last_the_alert_is_given_up(
    far: RemoteClient, job: dict[str, Any], webhook: Webhook
) -> None:
    webhook.behave = answers("500 Oh")
    Job.objects.update(max_attempts=2)
    refused(proceed(far, job), 409, "lease_lost")
    row = stored(job["job_id"])
    assert (row.status, row.attempt_number) == (Status.WAITING, 1)
    assert "500" in row.last_error
    Job.objects.update(status=Status.PENDING)
    (again,) = far.claim(types=[ABOUT_ALERTS])
    good(proceed(far, again))
    result = stored(job["job_id"]).result
    assert (result["delivered"], result["code"]) == (False, "bad_status")
    assert AlertKind.objects.get().undelivered == 1
    assert len(alerts()) == 1


def test_an_endpoint_may_ask_a_remote_worker_for_patience_too(
    far: RemoteClient, job: dict[str, Any], webhook: Webhook
) -> None:
    webhook.behave = answers("429 Slow\r\nRetry-After: 60")
    refused(proceed(far, job), 409, "lease_lost")
    assert stored(job["job_id"]).status == Status.WAITING


def test_a_lease_that_is_over_delivers_nothing(
    far: RemoteClient, job: dict[str, Any], webhook: Webhook
) -> None:
    lifecycle.cancel([job["job_id"]], reason="no")
    refused(proceed(far, job), 409, "lease_lost")
    refused(far.report("complete", job), 409, "lease_lost")
    assert webhook.requests == []


def test_nobody_else_delivers_it(far: RemoteClient, job: dict[str, Any], webhook: Webhook) -> None:
    other = new_remote("other")
    refused(proceed(other, job), 404)
    refused(other.report("complete", job), 404)
    assert webhook.requests == []
    assert not Worker.objects.filter(kind=WorkerKind.LOCAL).exists()
