"""The admin API of the queue: jobs and workers, what is logged, and lists that cost the same with a full table."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from jobs import enqueue, enqueue_many, lifecycle, worker_keys
from jobs.models import Job, JobTypeState
from tests.conftest import Declare
from tests.support.pages.admin_pages import failed_job
from tests.support.pages.staff_client import get, walk
from tests.support.queue.actors import claim_one, new_worker
from tests.support.queue.full_tables import fill_tables
from tests.support.remote.remote_client import REMOTE, good, new_remote, refused

pytestmark = pytest.mark.django_db


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
    assert first.pk in refused(admin_client.post(f"/api/jobs/{first.pk}/retry"), 409, "not_possible")
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
    get(admin_client, "queue")  # the first request of a process also looks which tables there are
    with django_assert_max_num_queries(7):
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
    assert refused(far.send("heartbeat", {"status": "idle"}), 401, "key_revoked")
    other.heartbeat()
    assert good(admin_client.post(f"/api/workers/{far.worker.pk}/revoke"))["revoked"] == []
    assert LogEntry.objects.count() == 2
    assert far.key not in str(answer)
