"""Alerts of real workers, near and far, as they arrive at a real endpoint over HTTP."""

from __future__ import annotations

import hashlib
import hmac
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jobs import enqueue, enqueue_many
from jobs.alerts.wording import Kind
from jobs.models import AlertKind, Job, Worker
from tests.conftest import StartManage
from tests.support.processes import ManageProcess, wait_until
from tests.support.queue.alerting import SECRET, told_to
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker
from tests.support.remote.remote_site import RemoteSite, is_ready, stop
from tests.support.servers.webhooks import Request, Webhook, serving

pytestmark = pytest.mark.django_db(transaction=True)


def environment(jobs: dict[str, Any], **more: str) -> dict[str, str]:
    return {**QUICK, **{f"JOBS_{name}": str(value) for name, value in jobs.items()}, **more}


def start_worker(start_manage: StartManage, webhook: Webhook, **more: str) -> ManageProcess:
    worker = start_manage("runworker", env=environment(told_to(webhook), **more))
    wait_for_worker(worker)
    return worker


def kinds(webhook: Webhook) -> list[str]:
    return [request.json["kind"] for request in list(webhook.requests)]


def is_genuine(request: Request) -> bool:
    moment, digest = (part.split("=")[1] for part in request.headers["x-sprocket-signature"].split(","))
    signed = moment.encode() + b"." + request.body
    return hmac.compare_digest(hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest(), digest)


def test_each_kind_arrives_once_from_a_whole_fleet(
    start_manage: StartManage, webhook: Webhook, settings: Any, log: str, gate: Path
) -> None:
    settings.JOBS = {**told_to(webhook), "WARN_DEPTH": 3}
    patient = {"JOBS_OFFLINE_THRESHOLD": "5s"}
    workers = [start_worker(start_manage, webhook, **patient) for _ in range(2)]
    wait_until(lambda: "worker_startup" in kinds(webhook))

    enqueue_many("work.fail", [{"log": log}] * 4, max_attempts=1)  # more than WARN_DEPTH
    enqueue_many("work.needs_service", [{"log": log, "up": str(gate)}] * 5, max_attempts=1)
    failures = {"queue_depth_high", "job_max_retries_exceeded", "job_failed_pattern", "breaker_opened"}
    wait_until(lambda: failures <= set(kinds(webhook)))

    held = enqueue("work.hold", {"log": log, "gate": str(gate)})
    wait_for_status(held, "processing")
    holder = Job.objects.get(pk=held.pk).worker
    assert holder is not None
    assert holder.pid is not None
    # One that dies with a delivery in hand leaves it to another, who cannot know that it has arrived.
    wait_until(lambda: not Job.objects.active().filter(type="jobs.alert").exists())
    os.kill(holder.pid, signal.SIGKILL)
    wait_until(lambda: {"stale_job_recovered", "worker_offline"} <= set(kinds(webhook)))
    gate.touch()
    wait_for_status(held, "completed")

    (survivor,) = [worker for worker in workers if worker.poll() is None]
    assert stop(survivor) == 0
    start_worker(start_manage, webhook, **patient)  # nobody else is there to tell
    wait_until(lambda: "worker_shutdown" in kinds(webhook))

    assert Counter(kinds(webhook)) == dict.fromkeys((str(kind) for kind in Kind), 1)
    assert all(is_genuine(request) for request in webhook.requests)
    (recovered,) = [request.json for request in webhook.requests if "stale" in request.json["kind"]]
    assert recovered["facts"]["job"] == held.pk
    assert AlertKind.objects.get(pk="worker_startup").suppressed == 2


def test_what_happens_to_a_remote_worker_is_told_by_the_site_and_needs_no_local_one(
    remote_site: RemoteSite, webhook: Webhook, log: str
) -> None:
    """The remote worker itself knows nothing of alerts; their endpoint may be one that it cannot reach."""
    env = environment(told_to(webhook), JOBS_ALERT_RATE_LIMIT="1ms")
    remote_site.serve(**env)
    far = remote_site.work(key=(key := remote_site.key()))
    wait_until(lambda: is_ready(far))
    job = enqueue("remote.fail", {"log": log, "how": "for good"})
    wait_for_status(job, "failed")
    assert stop(far) == 0

    def facts(kind: str) -> list[dict[str, Any]]:
        sent = [request.json for request in list(webhook.requests)]
        return [alert["facts"] for alert in sent if alert["kind"] == kind]

    def workers(kind: str) -> list[str]:
        return [about["worker"] for about in facts(kind)]

    wait_until(lambda: "far-away" in workers("worker_shutdown"))  # by the site: no worker is left
    remote_site.work(key=key)
    wait_until(lambda: workers("worker_startup").count("far-away") == 2)
    (failed,) = wait_until(lambda: facts("job_max_retries_exceeded"))
    assert (failed["job"], failed["type"]) == (job.pk, "remote.fail")
    assert failed["error"] == "PermanentFailure: it cannot work"
    told = Job.objects.filter(type="jobs.alert", status="completed")
    assert all(job.result == {"delivered": True, "status": 200} for job in told)
    assert "far-away" in set(told.values_list("processed_by_worker_name", flat=True))
    assert not Worker.objects.exclude(kind="remote").exists(), "the site itself is no worker"


def test_a_worker_runs_jobs_while_the_endpoint_hangs(start_manage: StartManage, log: str) -> None:
    with serving(behave=lambda connection, over: over.wait(60)) as webhook:
        worker = start_worker(start_manage, webhook, JOBS_ALERT_TIMEOUT="20s")
        wait_until(lambda: webhook.connections >= 1)  # that it has started
        enqueue_many("work.record", [{"log": log}] * 50)
        wait_until(lambda: Job.objects.filter(type="work.record", status="completed").count() == 50)
        assert Job.objects.get(type="jobs.alert").status == "processing"
        webhook.over.set()
        assert worker.poll() is None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
def test_a_worker_does_not_even_connect_to_its_own_machine(
    start_manage: StartManage, webhook: Webhook, host: str
) -> None:
    address = f"https://{host}:{webhook.port}/hidden"
    worker = start_manage("runworker", env={**QUICK, "LOG_FORMAT": "json", "JOBS_ALERT_WEBHOOK_URL": address})
    wait_for_worker(worker)
    alert = wait_until(lambda: Job.objects.filter(type="jobs.alert", status="completed").first())
    assert alert is not None
    assert alert.result is not None
    assert alert.result["delivered"] is False
    assert alert.result["code"] == "private_address"
    assert webhook.connections == 0
    wait_until(lambda: '"code": "alert_undelivered"' in worker.read_output())
    assert "hidden" not in worker.read_output()
