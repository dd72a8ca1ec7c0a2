"""What tests of alerts share: settings that send them to a server of the test, and jobs that fail."""

from __future__ import annotations

from typing import Any

from jobs import enqueue, lifecycle
from jobs.lifecycle import FailureReport
from jobs.models import Job
from tests.support.queue.actors import claim_one, new_worker
from tests.support.servers.webhooks import Webhook

SECRET = "a-secret-of-both-sides"
FINAL = FailureReport("ValueError", "no such file '/tmp/7'", permanent=True)
OTHER = FailureReport("OSError", "disk full", permanent=True)


def told_to(webhook: Webhook) -> dict[str, Any]:
    """JOBS, so that alerts go there."""
    return {
        "ALERT_WEBHOOK_URL": webhook.url("/hook/hidden"),
        "ALERT_ALLOW_PRIVATE": True,
        "ALERT_WEBHOOK_SECRET": SECRET,
        "RECOVERY_GRACE": "1ms",  # the test's server has just been started
    }


def fail_for_good(failure: FailureReport = FINAL, type_name: str = "tests.noop") -> str:
    job = enqueue(type_name, priority=-100)
    lifecycle.fail(claim_one(new_worker(types=[type_name])).lease, failure)
    return str(job.id)


def alerts() -> list[Job]:
    return list(Job.objects.filter(type="jobs.alert").order_by("pk"))


def kinds() -> list[str]:
    return [job.payload["kind"] for job in alerts()]
