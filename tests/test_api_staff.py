"""The admin API of the queue: who may do what, what is written down, and lists that cost the same with a full table."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core import signing
from django.test import Client

from jobs import enqueue, enqueue_many, lifecycle, staff_tokens, worker_keys
from jobs.models import Job, JobTypeState, Status, Worker, WorkerKey
from tests.actors import claim_one, new_worker, status_of
from tests.admin_pages import client_of, failed_job
from tests.conftest import Declare, RunManage
from tests.full_tables import fill_tables
from tests.remote_client import REMOTE, good, new_remote, refused

pytestmark = pytest.mark.django_db


def get(client: Client, path: str, **query: Any) -> Any:
    return client.get(f"/api/{path}", query)


def walk(client: Client, path: str, name: str, **query: Any) -> list[dict[str, Any]]:
    """All pages, one after the other."""
    rows: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = good(get(client, path, cursor=cursor, **query))
        rows += page[name]
        cursor = page["next"]
        if cursor is None:
            return rows


# -- the permission matrix ---------------------------------------------------------------------------------------------

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
        client = client_of(permission, name=permission)
        answer = client.generic(method, f"/api/{path.format(job=job.pk, worker=worker.pk)}")
        if permission in MATRIX[method, path]:
            assert answer.status_code == 200, (permission, answer.content)
        else:
            refused(answer, 403, "forbidden")
        lifecycle.cancel(job.pk)


@pytest.mark.parametrize(("method", "path"), MATRIX)
def test_strangers_and_people_who_are_no_staff_are_told_to_sign_in(method: str, path: str) -> None:
    address = f"/api/{path.format(job='0' * 26, worker='0' * 26)}"
    visitor = Client()
    visitor.force_login(User.objects.create_user("visitor", is_superuser=True, is_staff=False))
    for client in (Client(), visitor):
        refused(client.generic(method, address), 401, "not_authenticated")


@pytest.mark.parametrize("path", [path for method, path in MATRIX if method == "POST"])
def test_what_changes_something_needs_the_csrf_token(path: str) -> None:
    job, worker = failed_job(), new_worker(kind="remote")
    worker_keys.issue(worker)
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    address = f"/api/{path.format(job=job.pk, worker=worker.pk)}"
    refused(client.post(address), 403, "csrf")
    refused(client.post(address, headers={"X-CSRFToken": "x" * 32}), 403, "csrf")
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
    refused(answer, 405, "method_not_allowed")
    assert status_of(job) == Status.FAILED


@pytest.mark.parametrize("path", [path for _, path in MATRIX if "{" in path])
@pytest.mark.parametrize("name", ["0" * 26, "x", "%00", "..%2f", "ü"])
def test_what_is_not_there_is_not_found(admin_client: Client, path: str, name: str) -> None:
    method = "GET" if path == "jobs/{job}" else "POST"
    refused(admin_client.generic(method, f"/api/{path.format(job=name, worker=name)}"), 404, "not_found")


# -- tokens ------------------------------------------------------------------------------------------------------------


def bearer(token: str) -> Client:
    return Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {token}"})


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root", password="correct horse")


def test_a_token_acts_as_its_user_without_a_cookie(root: User) -> None:
    client = bearer(staff_tokens.issue(root, timedelta(hours=1)))
    job = failed_job()
    assert good(client.post(f"/api/jobs/{job.pk}/retry"))["job"]["status"] == "pending"
    assert LogEntry.objects.get().user == root


def test_a_token_has_its_users_permissions_and_no_others() -> None:
    clerk = User.objects.create_user("clerk", is_staff=True)
    refused(get(bearer(staff_tokens.issue(clerk, timedelta(hours=1))), "jobs"), 403, "forbidden")


def test_a_token_is_void_once_its_user_changes_the_password_leaves_or_is_gone(root: User) -> None:
    def works() -> bool:
        return bool(get(client, "queue").status_code == 200)

    client = bearer(staff_tokens.issue(root, timedelta(hours=1)))
    assert works()
    for change in ({"is_active": False}, {"is_staff": False}):
        User.objects.update(**change)
        assert not works()
        User.objects.update(is_active=True, is_staff=True)
        assert works()
    root.set_password("another one")
    root.save()
    assert not works()
    client = bearer(staff_tokens.issue(root, timedelta(hours=1)))
    assert works()
    root.delete()
    assert not works()


def test_a_token_ends(root: User, monkeypatch: pytest.MonkeyPatch) -> None:
    token = staff_tokens.issue(root, timedelta(hours=1))
    clock = time.time
    monkeypatch.setattr("django.core.signing.time.time", lambda: clock() + 3590)
    assert staff_tokens.verify(token) == root
    monkeypatch.setattr("django.core.signing.time.time", lambda: clock() + 3610)
    assert staff_tokens.verify(token) is None
    refused(get(bearer(token), "queue"), 401, "wrong_token")


@pytest.mark.parametrize("token", ["", "x", "a:b:c", "a" * 5000, "ü", "WyIxIiwzNjAwLCJ4Il0:1:x"])
def test_what_is_no_token_opens_nothing_and_is_limited(root: User, token: str, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "FAILED_AUTH_RATE": 1}
    refused(get(bearer(token), "queue"), 401, "wrong_token")
    refused(get(bearer(token), "queue"), 429, "too_many_tries")


def test_a_token_for_other_purposes_opens_nothing(root: User) -> None:
    assert staff_tokens.verify(signing.dumps([str(root.pk), 3600, "x"])) is None
    assert staff_tokens.verify(signing.dumps([str(root.pk), 3600, "x"], salt="jobs.staff_tokens")) is None


def test_tokens_are_for_staff_and_for_a_bounded_time(root: User) -> None:
    visitor = User.objects.create_user("visitor")
    with pytest.raises(ValueError, match="not an active member"):
        staff_tokens.issue(visitor, timedelta(hours=1))
    for lifetime in (timedelta(0), timedelta(days=400)):
        with pytest.raises(ValueError, match="at most"):
            staff_tokens.issue(root, lifetime)


@pytest.mark.django_db(transaction=True)
def test_the_command_prints_a_token(run_manage: RunManage) -> None:
    User.objects.create_superuser("root")
    token = run_manage("stafftoken", "root", "--lifetime=1h").stdout.strip()
    good(get(bearer(token), "queue"))
    for arguments in (["nobody"], ["root", "--lifetime=banana"], ["root", "--lifetime=9999d"]):
        refusal = run_manage("stafftoken", *arguments, check=False)
        assert refusal.returncode == 1
        assert "Traceback" not in refusal.stderr


# -- jobs --------------------------------------------------------------------------------------------------------------


def test_retry_and_cancel_do_what_the_buttons_do_and_are_logged(admin_client: Client) -> None:
    job = failed_job()
    answer = good(admin_client.post(f"/api/jobs/{job.pk}/retry"))
    assert (answer["changed"], answer["job"]["status"]) == ([job.pk], "pending")
    assert good(admin_client.post(f"/api/jobs/{job.pk}/cancel"))["job"]["status"] == "cancelled"
    logged = LogEntry.objects.order_by("pk").values_list(
        "user__username", "object_id", "object_repr", "change_message"
    )
    assert list(logged) == [("admin", job.pk, str(job), "retried"), ("admin", job.pk, str(job), "cancelled")]
    actors = job.events.order_by("pk").values_list("kind", "actor")
    assert list(actors) == [("retried", "admin"), ("cancelled", "admin")]


def test_what_is_not_possible_is_a_conflict_and_is_not_logged(admin_client: Client) -> None:
    first = failed_job(unique_key="k")
    done = enqueue("tests.noop")
    lifecycle.complete(claim_one().lease)
    waiting = enqueue("tests.noop")
    assert "completed" in refused(admin_client.post(f"/api/jobs/{done.pk}/cancel"), 409, "not_possible")
    assert "pending" in refused(admin_client.post(f"/api/jobs/{waiting.pk}/retry"), 409, "not_possible")
    enqueue("tests.noop", unique_key="k")
    assert "unique key" in refused(admin_client.post(f"/api/jobs/{first.pk}/retry"), 409, "not_possible")
    assert not LogEntry.objects.exists()


def test_a_job_is_shown_with_payload_and_result(admin_client: Client) -> None:
    job = enqueue("tests.noop", {"a": [1, None]})
    lifecycle.complete(claim_one().lease, {"b": 2})
    shown = good(get(admin_client, f"jobs/{job.pk}"))
    assert (shown["payload"], shown["result"], shown["status"]) == ({"a": [1, None]}, {"b": 2}, "completed")
    (row,) = good(get(admin_client, "jobs"))["jobs"]
    assert "payload" not in row
    assert {name: shown[name] for name in row} == row


def test_jobs_are_filtered(admin_client: Client, declare: Declare) -> None:
    declare("here.other")
    failed = failed_job().pk
    pending, other = enqueue("tests.noop").pk, enqueue("here.other").pk

    def ids(**query: Any) -> set[str]:
        return {row["id"] for row in walk(admin_client, "jobs", "jobs", **query)}

    assert ids() == {failed, pending, other}
    assert ids(status="failed") == {failed} == ids(state="failed")
    assert ids(state="unclaimed") == {pending, other}
    assert ids(type="here.other") == {other}
    assert ids(status="pending", type="tests.noop") == {pending}
    assert ids(status="failed", state="unclaimed") == set()
    assert ids(type="no.such") == set()


@pytest.mark.parametrize(
    "query",
    [
        *({"status": "gone"}, {"state": "gone"}, {"limit": 0}, {"limit": 201}, {"limit": "x"}, {"limit": -1}),
        *(
            {"cursor": "x"},
            {"cursor": "0" * 27},
            {"cursor": "\0"},
            {"type": "\0"},
            {"type": "x" * 101},
            {"workflow": "'"},
        ),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(admin_client: Client, query: dict[str, Any]) -> None:
    assert refused(get(admin_client, "jobs", **query), 422, "invalid").startswith(next(iter(query)))


@pytest.mark.parametrize("limit", [1, 2, 7, 200])
def test_pages_give_every_job_once_newest_first(admin_client: Client, limit: int) -> None:
    ids = enqueue_many("tests.noop", [{}] * 14)
    found = [row["id"] for row in walk(admin_client, "jobs", "jobs", limit=limit)]
    assert found == sorted(ids, reverse=True)


def test_jobs_that_come_while_somebody_pages_disturb_nothing(admin_client: Client) -> None:
    enqueue_many("tests.noop", [{}] * 4)
    first = good(get(admin_client, "jobs", limit=2))
    enqueue_many("tests.noop", [{}] * 4)
    second = good(get(admin_client, "jobs", limit=2, cursor=first["next"]))
    ids = [row["id"] for row in first["jobs"] + second["jobs"]]
    assert len(set(ids)) == 4
    assert second["next"] is None


@pytest.mark.parametrize(
    "query",
    [{}, {"status": "failed"}, {"status": "completed"}, {"status": "cancelled"}, {"state": "retrying"}],
)
def test_a_page_of_a_full_table_takes_few_statements_and_reads_a_bounded_part(
    admin_client: Client,
    query: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    django_assert_max_num_queries: Any,
) -> None:
    monkeypatch.setattr("jobs.admin.window.WINDOW", 500)
    monkeypatch.setattr("jobs.admin.window.find_window.__defaults__", (500,))
    fill_tables(4_000)
    with django_assert_max_num_queries(6):
        good(get(admin_client, "jobs", **query))
    expected = Job.objects.all()
    expected = expected.filter(status=query["status"]) if "status" in query else expected
    expected = expected.retrying() if "state" in query else expected
    found = [row["id"] for row in walk(admin_client, "jobs", "jobs", limit=200, **query)]
    assert found == list(expected.order_by("-pk").values_list("pk", flat=True))


def test_the_queue_as_a_whole(
    admin_client: Client, declare: Declare, django_assert_max_num_queries: Any
) -> None:
    declare(REMOTE, remote=True)
    declare("here.limited", concurrency=4)
    failed_job()
    enqueue_many("here.limited", [{}] * 3)
    enqueue(REMOTE, delay=timedelta(hours=1))
    JobTypeState.objects.update_or_create(name=REMOTE, defaults={"paused": True, "concurrency": 2})
    with django_assert_max_num_queries(6):
        queue = good(get(admin_client, "queue"))
    assert {
        name: queue[name]["value"] for name in ("pending", "scheduled", "blocked", "processing", "failed")
    } == {
        "pending": 3,
        "scheduled": 1,
        "blocked": 0,
        "processing": 0,
        "failed": 1,
    }
    types = {kind["name"]: kind for kind in queue["types"]}
    assert types["here.limited"]["pending"] == {"value": 3, "exact": True}
    assert (types["here.limited"]["concurrency"], types["here.limited"]["remote"]) == (4, False)
    assert (types[REMOTE]["paused"], types[REMOTE]["concurrency"], types[REMOTE]["remote"]) == (True, 2, True)


# -- workers -----------------------------------------------------------------------------------------------------------


def test_workers_are_listed_with_what_they_run(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    workers = [new_worker(capabilities=["gpu"]) for _ in range(5)]
    enqueue_many("tests.noop", [{}] * 3)
    lifecycle.claim(workers[2], 3)
    with django_assert_max_num_queries(6):
        page = good(get(admin_client, "workers", limit=3))
    assert [row["running"] for row in page["workers"]] == [0, 0, 3]
    assert page["workers"][0]["capabilities"] == ["gpu"]
    assert [row["id"] for row in walk(admin_client, "workers", "workers", limit=2)] == [w.pk for w in workers]
    assert "key" not in str(page).lower()


def test_workers_are_disabled_and_enabled_once_and_logged(admin_client: Client) -> None:
    worker = new_worker(name="w-1")
    for verb, state in (("disable", "disabled"), ("enable", "idle")):
        address = f"/api/workers/{worker.pk}/{verb}"
        answer = good(admin_client.post(address))
        assert (answer["changed"], answer["worker"]["state"]) == (True, state)
        assert good(admin_client.post(address))["changed"] is False
    logged = LogEntry.objects.order_by("pk").values_list("object_repr", "change_message")
    assert list(logged) == [("w-1", "disabled"), ("w-1", "enabled")]


def test_all_keys_of_a_worker_are_revoked(admin_client: Client, declare: Declare) -> None:
    declare(REMOTE, remote=True)
    far, other = new_remote(), new_remote()
    worker_keys.issue(far.worker)
    answer = good(admin_client.post(f"/api/workers/{far.worker.pk}/revoke"))
    assert sorted(answer["revoked"]) == sorted(far.worker.keys.values_list("prefix", flat=True))
    assert set(far.worker.keys.values_list("revoked_by", flat=True)) == {"admin"}
    refused(far.send("heartbeat", {"status": "idle"}), 401, "key_revoked")
    other.heartbeat()
    assert good(admin_client.post(f"/api/workers/{far.worker.pk}/revoke"))["revoked"] == []
    assert LogEntry.objects.count() == 2
    assert far.key not in str(answer)
