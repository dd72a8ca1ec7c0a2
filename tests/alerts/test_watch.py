"""The site keeps watch: the last worker is killed, nobody else is alive, and the site tells it. Real servers."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from typing import Any

import pytest

from jobs import enqueue
from jobs.models import Job, Worker
from tests.conftest import RunManage, StartManage
from tests.support.processes import ManageProcess, free_port, run_python, wait_until
from tests.support.queue.alerting import told_to
from tests.support.queue.workers import QUICK, wait_for_worker
from tests.support.servers.webhooks import Webhook, answers

pytestmark = pytest.mark.django_db(transaction=True)

SERVERS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "wsgi": (("manage.py",), ["runserver", "--noreload", "127.0.0.1:{port}"]),
    "asgi": (("-m", "uvicorn"), ["project.asgi:application", "--port={port}", "--log-level=warning"]),
}


def environment(webhook: Webhook, **more: str) -> dict[str, str]:
    told = {f"JOBS_{name}": str(value) for name, value in told_to(webhook).items()}
    return {**QUICK, "ALLOWED_HOSTS": "127.0.0.1", **told, **more}


def kinds(webhook: Webhook) -> list[str]:
    return [request.json["kind"] for request in list(webhook.requests)]


def sent(webhook: Webhook, kind: str) -> list[dict[str, Any]]:
    return [request.json for request in list(webhook.requests) if request.json["kind"] == kind]


def kill_the_only_worker(worker: ManageProcess) -> None:
    # One that dies with a delivery in hand leaves it to another, who cannot know that it has arrived.
    wait_until(lambda: not Job.objects.active().filter(type="jobs.alert").exists())
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()


@pytest.mark.parametrize("server", SERVERS)
def test_the_death_of_the_last_worker_is_told_by_the_site(
    server: str, start_manage: StartManage, run_manage: RunManage, webhook: Webhook
) -> None:
    program, arguments = SERVERS[server]
    port = free_port()
    env = environment(webhook)
    start_manage(*(text.format(port=port) for text in arguments), program=program, env=env)
    worker = start_manage("runworker", env=env)
    name = wait_for_worker(worker).name
    wait_until(lambda: kinds(webhook) == ["worker_startup"])

    kill_the_only_worker(worker)
    (alert,) = wait_until(lambda: sent(webhook, "worker_offline"))
    assert (alert["facts"]["worker"], alert["facts"]["left"]) == (name, 0)
    wait_until(lambda: not Worker.objects.exclude(kind="local").exists())
    delivered = Job.objects.get(type="jobs.alert", payload__kind="worker_offline")
    assert (delivered.status, delivered.result) == ("completed", {"delivered": True, "status": 200})

    waiting = enqueue("tests.noop")
    state = json.loads(run_manage("jobs", "status", "--json").stdout)
    assert (state["workers"], state["ready"], state["shutdown"]) == (0, 1, False)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
        health = json.load(answer)
    assert (health["status"], health["active_workers"], health["pending_jobs"]) == ("degraded", 0, 1)
    assert Job.objects.get(pk=waiting.pk).status == "pending", "the site runs nothing but alerts"


def test_an_endpoint_that_was_away_hears_of_it_later(start_manage: StartManage, webhook: Webhook) -> None:
    env = environment(webhook)
    start_manage("runserver", "--noreload", f"127.0.0.1:{free_port()}", env=env)
    worker = start_manage("runworker", env=env)
    wait_for_worker(worker)
    wait_until(lambda: "worker_startup" in kinds(webhook))
    webhook.behave = answers("503 Not now")
    kill_the_only_worker(worker)
    wait_until(lambda: "worker_offline" in kinds(webhook))
    webhook.behave = answers("204 Thanks")
    wait_until(
        lambda: Job.objects.filter(type="jobs.alert", status="completed", attempt_number__gt=1).exists()
    )
    ids = {alert["id"] for alert in sent(webhook, "worker_offline")}
    assert len(ids) == 1, "the same alert, tried again"


FORKING = """
import os, sys, threading
from io import BytesIO
from django.core.wsgi import get_wsgi_application

def watches():
    return sum(thread.name == "jobs-watch" for thread in threading.enumerate())

def ask():
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/health", "SERVER_NAME": "127.0.0.1", "SERVER_PORT": "80",
               "wsgi.input": BytesIO(), "wsgi.url_scheme": "http"}
    return b"".join(application(environ, lambda status, headers: None))

application = get_wsgi_application()
seen = [watches()]
from jobs import watch
watch.start()
seen.append(watches())
reader, writer = os.pipe()
if os.fork() == 0:
    seen.append(watches())
    for _ in range(2):
        ask()
    seen.append(watches())
    os.write(writer, repr(seen).encode())
    os._exit(0)
os.wait()
print(os.read(reader, 100).decode())
"""


def test_a_child_of_a_forking_server_keeps_watch_from_its_first_request_on(
    manage_environment: dict[str, str], transactional_db: None
) -> None:
    """As gunicorn does with --preload: what the master loaded, it forks; threads stay behind."""
    env = {**manage_environment, **QUICK, "ALLOWED_HOSTS": "127.0.0.1"}
    done = run_python(("-c", FORKING), (), env, timeout=120)
    assert json.loads(done.stdout or "[]") == [0, 1, 0, 1], done.stderr


def test_no_command_but_the_server_keeps_watch(run_manage: RunManage) -> None:
    code = (
        "import threading; from django.test import Client; Client().get('/health');"
        "print('jobs-watch' in [thread.name for thread in threading.enumerate()])"
    )
    shell = run_manage("shell", "-v0", "-c", code, env={"ALLOWED_HOSTS": "testserver"})
    assert shell.stdout.strip() == "False"


def test_only_kinds_that_were_chosen_are_sent(start_manage: StartManage, webhook: Webhook) -> None:
    env = environment(webhook, JOBS_ALERT_KINDS="worker_offline, breaker_opened")
    start_manage("runserver", "--noreload", f"127.0.0.1:{free_port()}", env=env)
    worker = start_manage("runworker", env=env)
    wait_for_worker(worker)
    kill_the_only_worker(worker)
    wait_until(lambda: kinds(webhook))
    assert list(Job.objects.values_list("payload__kind", flat=True)) == ["worker_offline"]


def test_a_kind_that_does_not_exist_is_refused_at_start_up(run_manage: RunManage) -> None:
    done = run_manage("check", check=False, env={"JOBS_ALERT_KINDS": "worker_offlin"})
    assert done.returncode == 1
    assert "jobs.E001" in done.stderr
    assert "ALERT_KINDS" in done.stderr
