"""The list of jobs: filters and search."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from jobs import HIGH, LOW, enqueue, lifecycle, workflow
from jobs.admin import window
from jobs.models import DERIVED_STATES, Job, Status
from jobs.ulid import ulid_floor
from tests.support.pages.admin_pages import JOBS, failed_job, shown
from tests.support.queue.actors import claim_one, new_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def one_of_each() -> dict[str, Job]:
    """A job in each status, under the name of the status."""
    failed = failed_job()
    cancelled = enqueue("tests.noop")
    lifecycle.cancel(cancelled.pk)
    completed = enqueue("tests.noop")
    lifecycle.complete(claim_one().lease, None)
    processing = enqueue("tests.noop")
    claim_one()
    return {
        "failed": failed,
        "cancelled": cancelled,
        "completed": completed,
        "processing": processing,
        "waiting": enqueue("tests.noop", delay=3600),
        "pending": enqueue("tests.noop"),
    }


@pytest.mark.parametrize("status", Status.values)
def test_each_status_is_a_filter(admin_client: Client, one_of_each: dict[str, Job], status: str) -> None:
    assert shown(admin_client, status__exact=status) == {one_of_each[status].pk}


@pytest.mark.parametrize(
    ("state", "statuses"),
    {
        "unclaimed": ["waiting", "pending"],
        "claimed": ["processing"],
        "expired": [],
        "retrying": [],
        "completed": ["completed"],
        "failed": ["failed"],
    }.items(),
)
def test_each_derived_state_is_a_filter(
    admin_client: Client, one_of_each: dict[str, Job], state: str, statuses: list[str]
) -> None:
    assert state in DERIVED_STATES
    assert shown(admin_client, state=state) == {one_of_each[status].pk for status in statuses}


def test_every_derived_state_says_in_which_statuses_its_jobs_are() -> None:
    assert set(window.STATUSES_OF) == set(DERIVED_STATES)


def test_filters_add_up(admin_client: Client, one_of_each: dict[str, Job]) -> None:
    assert shown(admin_client, status__exact="failed", state="claimed") == set()
    assert shown(admin_client, status__exact="pending", state="unclaimed") == {one_of_each["pending"].pk}


def test_type_priority_and_worker_are_filters(admin_client: Client) -> None:
    urgent = enqueue("work.record", log="x", priority=HIGH)
    odd = enqueue("tests.noop", priority=77)
    other = enqueue("tests.noop", priority=LOW)
    worker = new_worker()
    claim_one(worker)
    assert shown(admin_client, type="work.record") == {urgent.pk}
    assert shown(admin_client, priority=str(LOW)) == {other.pk}
    assert shown(admin_client, priority="other") == {odd.pk}
    assert shown(admin_client, priority="77") == {odd.pk}
    assert shown(admin_client, worker=worker.pk) == {urgent.pk}
    assert shown(admin_client, status__exact="pending", type="tests.noop") == {odd.pk, other.pk}


def test_the_date_is_a_filter(admin_client: Client) -> None:
    new = enqueue("tests.noop")
    now = Job.objects.get(pk=new.pk).created_at
    old = Job.objects.create(
        pk=ulid_floor(now.timestamp() - 86400 * 3), type="tests.noop", correlation_id="x"
    )
    day = now.date()
    assert shown(admin_client, created="24h") == {new.pk}
    assert shown(admin_client, created="7d") == {new.pk, old.pk}
    assert shown(admin_client, created=day.isoformat()) == {new.pk}
    assert shown(admin_client, created=(day - timedelta(days=3)).isoformat()) == {old.pk}
    assert shown(admin_client, created="9999-12-31") == set()


def test_jobs_of_a_workflow_are_a_filter(admin_client: Client) -> None:
    enqueue("tests.noop")
    with workflow("w") as flow:
        ids = {flow.add("tests.noop").pk for _ in range(3)}
    assert shown(admin_client, workflow=flow.record.pk) == ids


def test_jobs_are_found_by_id_start_of_id_correlation_key_and_payload(admin_client: Client) -> None:
    parcel = enqueue("tests.noop", correlation_id="order 4711", unique_key="parcel:9")
    payload = {"to": 'Zoë "Z" O’Hara', "path": r"C:\x"}
    letter = Job.objects.create(payload=payload, type="tests.noop", correlation_id="x")
    for term in (parcel.pk, parcel.pk.lower(), parcel.pk[:16], f"  {parcel.pk} ", "order 4711", "parcel:9"):
        assert parcel.pk in shown(admin_client, q=term), term
    for term in ("Zoë", "O’Hara", '"Z"', r"C:\x", '"path"'):
        assert shown(admin_client, q=term) == {letter.pk}, term
    assert shown(admin_client, q="nothing of the kind") == set()
    assert shown(admin_client, q="100%") == set()


def test_a_correlation_id_finds_all_that_belong_together(admin_client: Client) -> None:
    with workflow("w", correlation_id="request-9") as flow:
        ids = {flow.add("tests.noop").pk for _ in range(3)}
    enqueue("tests.noop")
    assert shown(admin_client, q="request-9") == ids


@pytest.mark.parametrize(
    "query",
    [
        {"q": "x\0y"},
        {"type": "\0"},
        {"status__exact": "nonsense"},
        {"state": "nonsense"},
        {"priority": "9" * 400},
        {"priority": "-"},
        {"created": "2026-13-45"},
        {"created": "0001-01-01"},
        {"before": "ü"},
        {"before": "9" * 500},
        {"p": "99999999999"},
        {"o": "1.2"},
        {"q": "'; DROP TABLE jobs_job; --"},
        {"workflow": "<b>"},
        {"worker": "<b>"},
    ],
    ids=str,
)
def test_a_crooked_address_is_no_server_error(admin_client: Client, query: dict[str, str]) -> None:
    enqueue("tests.noop")
    assert admin_client.get(JOBS, query).status_code in (200, 302, 400)
