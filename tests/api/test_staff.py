"""The admin API of the queue: who may do what."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from jobs import lifecycle, worker_keys
from jobs.models import Status, Worker, WorkerKey, WorkerStatus
from tests.support.pages.admin_pages import client_of, failed_job
from tests.support.queue.actors import new_worker, status_of
from tests.support.remote.remote_client import refused

pytestmark = pytest.mark.django_db

JOB_VIEWS = ("view_job", "change_job")
WORKER_VIEWS = ("view_worker", "change_worker")
MATRIX: dict[tuple[str, str], tuple[str, ...]] = {
    ("GET", "jobs"): JOB_VIEWS,
    ("GET", "jobs/{job}"): JOB_VIEWS,
    ("GET", "queue"): JOB_VIEWS,
    ("GET", "workers"): WORKER_VIEWS,
    ("POST", "jobs/{job}/retry"): ("change_job",),
    ("POST", "jobs/{job}/cancel"): ("change_job",),
    ("POST", "workers/{worker}/disable"): ("change_worker",),
    ("POST", "workers/{worker}/enable"): ("change_worker",),
    ("POST", "workers/{worker}/revoke"): ("change_workerkey",),
    ("POST", "workers/{worker}/forget"): ("delete_worker",),
}
"""Which permissions open what, each alone."""
PERMISSIONS = sorted(
    f"{verb}_{model}"
    for verb in ("view", "change", "add", "delete")
    for model in ("job", "worker", "workerkey")
)


def test_every_operation_of_the_staff_is_in_the_matrix() -> None:
    paths = Client().get("/api/openapi.json").json()["paths"]
    offered = {
        (
            method.upper(),
            path.removeprefix("/api/").replace("{job_id}", "{job}").replace("{worker_id}", "{worker}"),
        )
        for path, methods in paths.items()
        for method, operation in methods.items()
        if operation["tags"] == ["admin"]
    }
    assert offered == set(MATRIX)


@pytest.mark.parametrize(("method", "path"), MATRIX)
def test_each_operation_takes_its_permission_and_no_other(method: str, path: str) -> None:
    for permission in PERMISSIONS:
        job, worker = failed_job(), new_worker(kind="remote")
        if path.endswith("cancel"):
            lifecycle.retry(job.pk)
        if path.endswith("forget"):
            Worker.objects.update(status=WorkerStatus.OFFLINE)
        client = client_of(permission, name=permission)
        answer = client.generic(method, f"/api/{path.format(job=job.pk, worker=worker.pk)}")
        if permission in MATRIX[method, path]:
            assert answer.status_code == 200, (permission, answer.content)
        else:
            assert refused(answer, 403, "forbidden")
        lifecycle.cancel(job.pk)


@pytest.mark.parametrize(("method", "path"), MATRIX)
def test_strangers_and_people_who_are_no_staff_are_told_to_sign_in(method: str, path: str) -> None:
    address = f"/api/{path.format(job='0' * 26, worker='0' * 26)}"
    visitor = Client()
    visitor.force_login(User.objects.create_user("visitor", is_superuser=True, is_staff=False))
    for client in (Client(), visitor):
        assert refused(client.generic(method, address), 401, "not_authenticated")


@pytest.mark.parametrize("path", [path for method, path in MATRIX if method == "POST"])
def test_what_changes_something_needs_the_csrf_token(path: str) -> None:
    job, worker = failed_job(), new_worker(kind="remote")
    worker_keys.issue(worker)
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    address = f"/api/{path.format(job=job.pk, worker=worker.pk)}"
    assert refused(client.post(address), 403, "csrf")
    assert refused(client.post(address, headers={"X-CSRFToken": "x" * 32}), 403, "csrf")
    assert (status_of(job), Worker.objects.get(pk=worker.pk).disabled) == (Status.FAILED, False)
    assert WorkerKey.objects.get().revoked_at is None
    client.get("/admin/")
    page = client.get("/admin/jobs/job/")
    token = str(page.context["csrf_token"])
    client.cookies["csrftoken"] = token
    assert client.post(address, headers={"X-CSRFToken": token}).status_code in (200, 409)


@pytest.mark.parametrize("path", [path for method, path in MATRIX if method == "POST"])
def test_nothing_changes_on_get(admin_client: Client, path: str) -> None:
    job, worker = failed_job(), new_worker(kind="remote")
    answer = admin_client.get(f"/api/{path.format(job=job.pk, worker=worker.pk)}")
    assert refused(answer, 405, "method_not_allowed")
    assert status_of(job) == Status.FAILED


@pytest.mark.parametrize("path", [path for _, path in MATRIX if "{" in path])
@pytest.mark.parametrize("name", ["0" * 26, "x", "%00", "..%2f", "ü"])
def test_what_is_not_there_is_not_found(admin_client: Client, path: str, name: str) -> None:
    method = "GET" if path == "jobs/{job}" else "POST"
    assert refused(
        admin_client.generic(method, f"/api/{path.format(job=name, worker=name)}"), 404, "not_found"
    )
