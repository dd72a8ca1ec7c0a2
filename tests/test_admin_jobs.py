"""The list of jobs: filters, search, windows, and actions on some jobs or on all that match."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from jobs import HIGH, LOW, enqueue, enqueue_many, lifecycle, workflow
from jobs.admin import bulk, filters, window
from jobs.models import DERIVED_STATES, Event, Job, Status
from jobs.ulid import ulid_floor
from tests.actors import claim_one, new_worker, status_of
from tests.admin_pages import JOBS, PERMANENT, act, ask, failed_job, said, text_of

pytestmark = pytest.mark.django_db


def shown(client: Client, **query: Any) -> set[str]:
    """The ids of the jobs that the list shows."""
    page = client.get(JOBS, query)
    assert page.status_code == 200, query
    return {job.pk for job in page.context["cl"].result_list}


# -- filters and search ------------------------------------------------------------------------------------------------


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


def finished(count: int, *, failed: bool = False, text: str = "x") -> list[str]:
    """The ids of new jobs that have come to an end."""
    enqueue_many("work.record", [{"log": text}] * count)
    ids = []
    for claimed in lifecycle.claim(new_worker(), count, types=["work.record"]):
        ids.append(claimed.lease.job_id)
        if failed:
            lifecycle.fail(claimed.lease, PERMANENT)
        else:
            lifecycle.complete(claimed.lease, None)
    return sorted(ids)


# -- windows -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def _small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window.find_window, "__defaults__", (10,))


@pytest.mark.usefixtures("_small_window")
def test_a_list_shows_the_newest_and_leads_to_all_others(admin_client: Client) -> None:
    enqueue_many("tests.noop", [{}] * 25)
    everything = sorted(Job.objects.values_list("pk", flat=True), reverse=True)
    found, query = [], "?"
    for _ in range(3):
        changelist = admin_client.get(JOBS + query).context["cl"]
        found.append([job.pk for job in changelist.result_list])
        query = changelist.older_query
    assert found == [everything[:10], everything[10:20], everything[20:]]
    assert changelist.window.is_whole
    assert "Look at older jobs" not in text_of(admin_client.get(JOBS + f"?before={everything[19]}"))
    assert "Look at older jobs" in text_of(admin_client.get(JOBS))


@pytest.mark.usefixtures("_small_window")
def test_what_an_index_leads_to_is_shown_however_old_it_is(admin_client: Client) -> None:
    old = {failed_job().pk, *(enqueue("tests.noop", delay=delay).pk for delay in (60, 0))}
    running = enqueue("work.record", log="x", priority=HIGH)
    claim_one()
    finished(30)
    assert not old & shown(admin_client)
    for status in ("failed", "waiting", "pending"):
        assert shown(admin_client, status__exact=status) < old, status
        assert shown(admin_client, status__exact=status), status
    assert shown(admin_client, state="unclaimed") < old
    assert shown(admin_client, status__exact="processing") == {running.pk}


@pytest.mark.usefixtures("_small_window")
def test_of_too_many_failed_jobs_the_newest_failed_ones_are_shown(admin_client: Client) -> None:
    dead = finished(12, failed=True)
    finished(30)
    assert shown(admin_client, status__exact="failed") == set(dead[2:])
    assert shown(admin_client, status__exact="failed", before=dead[2]) == set(dead[:2])


@pytest.mark.usefixtures("_small_window")
def test_payloads_are_searched_in_the_window_and_the_page_says_so(admin_client: Client) -> None:
    (old,) = finished(1, text="needle")
    newer = finished(15)
    page = text_of(admin_client.get(JOBS, {"q": "needle"}))
    assert "no payload of the jobs since" in " ".join(page.split())
    assert shown(admin_client, q="needle", before=newer[0]) == {old}
    assert shown(admin_client, q=old) == {old}


def test_an_id_tells_when_it_was_made() -> None:
    assert filters.made_at(ulid_floor(0)).startswith(("Jan. 1, 1970", "1 Jan", "1970"))
    assert filters.made_at("nonsense!!") == "nonsense!!"


# -- actions -----------------------------------------------------------------------------------------------------------


def test_an_action_first_says_how_many_and_what_will_happen(admin_client: Client) -> None:
    rows = [failed_job(), failed_job(), enqueue("tests.noop")]
    page = text_of(ask(admin_client, "retry", *rows))
    assert "<strong>2 jobs</strong>" in page
    assert "They start over with all their attempts ahead." in page
    assert "1 of the ticked jobs is in no state for that" in " ".join(page.split())
    assert [status_of(row) for row in rows] == ["failed", "failed", "pending"]
    assert not LogEntry.objects.exists()


def test_failed_jobs_are_retried(admin_client: Client) -> None:
    first, second, pending = failed_job(), failed_job(), enqueue("tests.noop")
    answer = act(admin_client, "retry", first, second, pending)
    assert (answer.status_code, said(answer)) == (302, ["2 jobs retried."])
    assert [status_of(job) for job in (first, second)] == ["pending", "pending"]
    assert set(Event.objects.filter(kind="retried").values_list("actor", flat=True)) == {"admin"}


def test_jobs_are_cancelled(admin_client: Client) -> None:
    job = enqueue("tests.noop")
    assert said(act(admin_client, "cancel", job)) == ["1 job cancelled."]
    assert status_of(job) == "cancelled"


def test_delayed_jobs_are_run_now_but_not_those_that_wait_for_others(admin_client: Client) -> None:
    job = enqueue("tests.noop", delay=60)
    with workflow("w") as flow:
        blocked = flow.add("tests.noop", after=[flow.add("tests.noop")])
    assert said(act(admin_client, "run_now", job, blocked)) == ["1 job made pending."]
    assert (status_of(job), status_of(blocked)) == ("pending", "waiting")


@pytest.mark.parametrize(("given", "value"), [("high", HIGH), ("-3", -3), (" 42 ", 42)])
def test_the_priority_is_changed(admin_client: Client, given: str, value: int) -> None:
    job = enqueue("tests.noop")
    act(admin_client, "change_priority", job, priority=given)
    assert Job.objects.get(pk=job.pk).priority == value
    assert "given priority" in LogEntry.objects.get().change_message


@pytest.mark.parametrize("given", ["", "urgent", "1.5", "9" * 30])
def test_what_is_no_priority_is_said_and_asked_again(admin_client: Client, given: str) -> None:
    job = enqueue("tests.noop")
    answer = act(admin_client, "change_priority", job, priority=given)
    assert answer.status_code == 200
    assert "priority" in " ".join(said(answer))
    assert Job.objects.get(pk=job.pk).priority == job.priority


def test_finished_jobs_are_discarded_and_the_log_remembers_them(admin_client: Client) -> None:
    job = failed_job()
    assert said(act(admin_client, "discard", job)) == ["1 job discarded."]
    assert not Job.objects.exists()
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.object_repr) == (job.pk, f"tests.noop {job.pk}")


def test_what_is_not_possible_is_said_and_not_logged(admin_client: Client) -> None:
    job = enqueue("tests.noop")
    assert "None of these jobs can be retried." in text_of(ask(admin_client, "retry", job))
    assert said(act(admin_client, "discard", job)) == ["No job was discarded."]
    assert status_of(job) == "pending"
    assert not LogEntry.objects.exists()


def test_one_job_that_refuses_does_not_keep_the_others_from_it(admin_client: Client) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
    lifecycle.fail(claim_one().lease, PERMANENT)
    other = failed_job()
    answer = act(admin_client, "retry", second, other)
    assert said(answer) == [
        f"Job {second.pk} needs {first.pk}, which did not complete; retry that one instead.",
        "1 job retried.",
    ]
    assert (status_of(second), status_of(other)) == ("cancelled", "pending")


def test_every_job_that_an_action_changed_is_in_the_log(admin_client: Client, admin_user: User) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
    lifecycle.fail(claim_one().lease, PERMANENT)
    act(admin_client, "retry", first)
    logged = LogEntry.objects.filter(user=admin_user).values_list("object_id", "change_message")
    assert sorted(logged) == sorted([(first.pk, "retried"), (second.pk, "retried")])


# -- all that match ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_small_window")
def test_all_that_match_are_meant_also_those_beyond_the_window(admin_client: Client) -> None:
    enqueue_many("tests.noop", [{}] * 40, priority=LOW)
    keep = enqueue("tests.noop")
    one = Job.objects.filter(priority=LOW).order_by("-pk").first()
    query = f"?priority={LOW}"
    page = text_of(ask(admin_client, "cancel", one, query=query, across=True))
    assert "<strong>40 jobs</strong>" in page
    answer = act(admin_client, "cancel", one, query=query, across=True)
    assert said(answer) == ["40 jobs cancelled."]
    assert answer["Location"].endswith(query)
    assert Job.objects.filter(status="cancelled").count() == 40
    assert status_of(keep) == "pending"
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.object_repr) == (None, "40 jobs")
    assert f"priority={LOW}" in entry.change_message


def test_jobs_that_came_after_the_question_are_left_alone(admin_client: Client) -> None:
    early = enqueue("tests.noop")
    page = ask(admin_client, "cancel", early, across=True)
    late = enqueue("tests.noop")
    data = {"action": "cancel", "select_across": "1", "_selected_action": early.pk, "confirmed": "yes"}
    admin_client.post(JOBS, {**data, "until": page.context["until"]})
    assert (status_of(early), status_of(late)) == ("cancelled", "pending")


def test_a_long_action_goes_on_request_by_request(admin_client: Client) -> None:
    enqueue_many("tests.noop", [{}] * 25)
    one = Job.objects.first()
    requests = 0
    with patch.object(bulk, "BATCH", 10), patch.object(bulk, "SLICE_SECONDS", -1.0):
        answer = act(admin_client, "cancel", one, across=True)
        while answer.status_code == 200:
            requests += 1
            hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', text_of(answer)))
            assert f"{10 * requests} of 25 jobs cancelled so far." in text_of(answer)
            answer = admin_client.post(JOBS, hidden)
    assert requests == 2
    assert said(answer) == ["25 jobs cancelled."]
    assert LogEntry.objects.count() == 3


def test_confirming_twice_does_it_once(admin_client: Client) -> None:
    job = failed_job()
    page = ask(admin_client, "retry", job)
    data = {
        "action": "retry",
        "_selected_action": job.pk,
        "confirmed": "yes",
        "until": page.context["until"],
        "select_across": "0",
    }
    assert said(admin_client.post(JOBS, data)) == ["1 job retried."]
    assert "No job was retried." in said(admin_client.post(JOBS, data))
    assert LogEntry.objects.count() == Event.objects.filter(kind="retried").count() == 1


# -- the page itself ---------------------------------------------------------------------------------------------------


def test_the_list_takes_few_queries_for_many_jobs(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    enqueue_many("tests.noop", [{}] * 120)
    with django_assert_max_num_queries(15):
        page = admin_client.get(JOBS)
    assert len(page.context["cl"].result_list) == page.context["cl"].list_per_page
    with django_assert_max_num_queries(15):
        assert admin_client.get(JOBS, {"q": "nothing", "status__exact": "failed"}).status_code == 200


def test_an_empty_queue_says_what_to_do_first(admin_client: Client) -> None:
    assert "manage.py enqueue" in text_of(admin_client.get(JOBS))


def test_large_payloads_are_not_read_for_the_list(admin_client: Client) -> None:
    enqueue("work.record", log="x" * 100_000)
    page = text_of(admin_client.get(JOBS))
    assert "x" * 100 in page
    assert "x" * 1000 not in page


def test_the_stream_of_the_list_tells_the_state_of_its_jobs(admin_client: Client) -> None:
    job = enqueue("tests.noop")
    answer = admin_client.get(f"{JOBS}live/?job={job.pk}", headers={"accept": "application/json"})
    assert answer.json()[f"job.{job.pk}.status"] == "pending"
    assert admin_client.get(f"{JOBS}live/?job=nonsense").status_code == 400
