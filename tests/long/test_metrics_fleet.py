"""/metrics of a real fleet: several web processes and workers, near and far, while jobs run, die and are pruned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs import enqueue, enqueue_many, lifecycle
from jobs.models import Attempt, Job
from tests.conftest import RunManage, StartManage
from tests.support.processes import ManageProcess, free_port, wait_until
from tests.support.queue.alerting import told_to
from tests.support.queue.scraping import TOKEN, Samples, fetch, named, parse, queries
from tests.support.queue.workers import QUICK, wait_for_worker
from tests.support.remote.remote_site import SETTINGS, RemoteSite, is_ready
from tests.support.servers.webhooks import Webhook

pytestmark = pytest.mark.django_db(transaction=True)


class Watcher:
    """Scrapes the web processes in turn; no counter may ever go back, whichever of them answers."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.turn = 0
        self.counted: Samples = {}

    def scrape(self) -> Samples:
        self.turn += 1
        text = fetch(self.addresses[self.turn % len(self.addresses)])
        counted = parse(text, kind="counter") | parse(text, kind="histogram")
        back = {
            name: (was, counted.get(name))
            for name, was in self.counted.items()
            if counted.get(name, -1) < was
        }
        assert back == {}
        self.counted = counted
        return parse(text)

    def wait_for(self, expected: Samples) -> Samples:
        found: Samples = {}

        def arrived() -> bool:
            nonlocal found
            said = self.scrape()
            found = {name: said.get(name, -1) for name in expected}
            return found == expected

        try:
            wait_until(arrived)
        except AssertionError:
            assert found == expected
            raise
        return self.scrape()


def start_web(start_manage: StartManage, env: dict[str, str]) -> tuple[ManageProcess, str]:
    port = free_port()
    web = start_manage("runserver", "--noreload", f"127.0.0.1:{port}", env=env)
    address = f"http://127.0.0.1:{port}/metrics"

    def answers() -> bool:
        assert web.poll() is None, web.read_output()
        try:
            return bool(fetch(address))
        except OSError:
            return False

    wait_until(answers)
    return web, address


def test_all_web_processes_tell_of_the_whole_fleet_and_nothing_is_ever_taken_back(
    remote_site: RemoteSite,
    start_manage: StartManage,
    run_manage: RunManage,
    webhook: Webhook,
    log: str,
    tmp_path: Path,
) -> None:
    jobs: dict[str, Any] = {**told_to(webhook), "METRICS_TOKEN": TOKEN, "BREAKER_COOLDOWN": "1h"}
    env = {
        **QUICK,
        **{f"JOBS_{name}": str(value) for name, value in jobs.items()},
        "DJANGO_SETTINGS_MODULE": SETTINGS,
        "ALLOWED_HOSTS": "127.0.0.1",
    }
    remote_site.serve(**env)
    web, second = start_web(start_manage, env)
    watcher = Watcher(remote_site.url.replace("/api", "/metrics"), second)
    before = watcher.scrape()
    assert before["sprocket_queue_jobs", "work.record", "pending", "normal"] == 0

    enqueue_many("work.record", [{"log": log}] * 30)
    enqueue_many("remote.record", [{"log": log}] * 10)
    enqueue("remote.fail", {"log": log, "how": "for good"})
    enqueue_many("work.fail", [{"log": log}] * 2, max_attempts=3)
    enqueue_many("work.needs_service", [{"log": log, "up": str(tmp_path / "up")}] * 5, max_attempts=1)
    waiting = watcher.scrape()
    assert waiting["sprocket_queue_jobs", "work.record", "pending", "normal"] == 30
    assert waiting["sprocket_pending_age_seconds", "remote.record"] >= 0

    near = {**env, "DJANGO_SETTINGS_MODULE": "tests.settings"}  # which does not know the remote types
    for name in ("a", "b"):
        wait_for_worker(start_manage("runworker", "--name", name, env=near))
    far = remote_site.work(key=remote_site.key())
    wait_until(lambda: is_ready(far))
    running = watcher.scrape()
    assert sum(value for name, value in running.items() if name[0] == "sprocket_workers") == 3
    ages = {name[1] for name in running if name[0] == "sprocket_worker_heartbeat_age_seconds"}
    assert ages == {"a", "b", "far-away"}

    said = watcher.wait_for(
        {
            ("sprocket_jobs_total", "work.record", "completed"): 30,
            ("sprocket_job_run_seconds_count", "work.record"): 30,
            ("sprocket_job_wait_seconds_count", "work.record"): 30,
            ("sprocket_jobs_total", "remote.record", "completed"): 10,
            ("sprocket_job_run_seconds_count", "remote.record"): 10,
            ("sprocket_jobs_total", "remote.fail", "failed"): 1,
            ("sprocket_jobs_total", "work.fail", "failed"): 6,
            ("sprocket_failures_total", "work.fail"): 6,
            ("sprocket_max_retries_exceeded_total", "work.fail"): 2,
            ("sprocket_breaker_state", "payments", "open"): 1,
            ("sprocket_queue_jobs", "work.fail", "failed", "normal"): 2,
            ("sprocket_queue_jobs", "work.record", "pending", "normal"): 0,
        }
    )
    assert said["sprocket_alerts_total", "job_max_retries_exceeded", "sent"] == 1
    assert {name for query in queries() for name in named(query)} <= {name[0] for name in said}

    # A worker dies, its job is lost; both web processes hear of it.
    enqueue("work.kill_worker", {"log": log}, max_attempts=1)
    watcher.wait_for(
        {
            ("sprocket_stale_recoveries_total", "work.kill_worker"): 1,
            ("sprocket_jobs_total", "work.kill_worker", "lost"): 1,
        }
    )

    # Pruned and discarded jobs are gone, a web process is another one; the counters go on from where they were.
    assert "job(s) deleted" in run_manage("prune_jobs", env={**env, "JOBS_RETENTION": "1ms"}).stdout
    lifecycle.discard(list(Job.objects.filter(status="failed").values_list("pk", flat=True)))
    assert not Attempt.objects.filter(job__type__in=["work.record", "work.fail"]).exists()
    watcher.scrape()
    web.kill_group()
    _, third = start_web(start_manage, env)
    watcher.addresses = (watcher.addresses[0], third)
    enqueue_many("work.record", [{"log": log}] * 5)
    watcher.wait_for({("sprocket_jobs_total", "work.record", "completed"): 35})
    texts = [fetch(address) for address in watcher.addresses]
    first, other = ([line for line in text.splitlines() if "_total{" in line] for text in texts)
    assert first == other
