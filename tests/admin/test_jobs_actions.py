"""The list of jobs: actions on some jobs, or on all that match."""

from __future__ import annotations

import re
from unittest.mock import patch

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from jobs import HIGH, LOW, enqueue, enqueue_many, lifecycle, workflow
from jobs.admin import bulk
from jobs.admin.verbs import BY_NAME
from jobs.models import Event, Job
from tests.support.pages.admin_pages import JOBS, PERMANENT, act, ask, failed_job, said, text_of
from tests.support.pages.admin_pages import _small_window as _small_window
from tests.support.pages.codes import codes_on, numbers_in, told
from tests.support.queue.actors import claim_one, status_of

pytestmark = pytest.mark.django_db


def test_an_action_first_says_how_many_and_what_will_happen(admin_client: Client) -> None:
    rows = [failed_job(), failed_job(), enqueue("tests.noop")]
    page = text_of(ask(admin_client, "retry", *rows))
    assert 'data-code="ask" data-count="2"' in page
    assert BY_NAME["retry"].consequence in page
    assert 'data-code="left_alone" data-count="1"' in page
    assert [status_of(row) for row in rows] == ["failed", "failed", "pending"]
    assert not LogEntry.objects.exists()


def test_failed_jobs_are_retried(admin_client: Client) -> None:
    first, second, pending = failed_job(), failed_job(), enqueue("tests.noop")
    answer = act(admin_client, "retry", first, second, pending)
    assert (answer.status_code, told(answer)) == (302, ["job_retry success"])
    assert numbers_in(said(answer)[0]) == [2]
    assert [status_of(job) for job in (first, second)] == ["pending", "pending"]
    assert set(Event.objects.filter(kind="retried").values_list("actor", flat=True)) == {"admin"}


def test_jobs_are_cancelled(admin_client: Client) -> None:
    job = enqueue("tests.noop")
    assert told(act(admin_client, "cancel", job)) == ["job_cancel success"]
    assert status_of(job) == "cancelled"


def test_delayed_jobs_are_run_now_but_not_those_that_wait_for_others(admin_client: Client) -> None:
    job = enqueue("tests.noop", delay=60)
    with workflow("w") as flow:
        blocked = flow.add("tests.noop", after=[flow.add("tests.noop")])
    answer = act(admin_client, "run_now", job, blocked)
    assert told(answer) == ["job_run_now success"]
    assert numbers_in(said(answer)[0]) == [1]
    assert (status_of(job), status_of(blocked)) == ("pending", "waiting")


@pytest.mark.parametrize(("given", "value"), [("high", HIGH), ("-3", -3), (" 42 ", 42)])
def test_the_priority_is_changed(admin_client: Client, given: str, value: int) -> None:
    job = enqueue("tests.noop")
    act(admin_client, "change_priority", job, priority=given)
    assert Job.objects.get(pk=job.pk).priority == value
    assert LogEntry.objects.get().change_message.startswith(BY_NAME["change_priority"].done)


@pytest.mark.parametrize("given", ["", "urgent", "1.5", "9" * 30])
def test_what_is_no_priority_is_said_and_asked_again(admin_client: Client, given: str) -> None:
    job = enqueue("tests.noop")
    answer = act(admin_client, "change_priority", job, priority=given)
    assert answer.status_code == 200
    assert told(answer) == ["job_bad_priority error"]
    assert Job.objects.get(pk=job.pk).priority == job.priority


def test_finished_jobs_are_discarded_and_the_log_remembers_them(admin_client: Client) -> None:
    job = failed_job()
    assert told(act(admin_client, "discard", job)) == ["job_discard success"]
    assert not Job.objects.exists()
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.object_repr) == (job.pk, f"tests.noop {job.pk}")


def test_what_is_not_possible_is_said_and_not_logged(admin_client: Client) -> None:
    job = enqueue("tests.noop")
    assert codes_on(text_of(ask(admin_client, "retry", job))) == ["none_possible"]
    assert told(act(admin_client, "discard", job)) == ["job_discard warning"]
    assert status_of(job) == "pending"
    assert not LogEntry.objects.exists()


def test_one_job_that_refuses_does_not_keep_the_others_from_it(admin_client: Client) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
    lifecycle.fail(claim_one().lease, PERMANENT)
    other = failed_job()
    answer = act(admin_client, "retry", second, other)
    assert told(answer) == ["job_refused error", "job_retry success"]
    refusal, done = said(answer)
    assert second.pk in refusal
    assert first.pk in refusal
    assert numbers_in(done) == [1]
    assert (status_of(second), status_of(other)) == ("cancelled", "pending")


def test_every_job_that_an_action_changed_is_in_the_log(admin_client: Client, admin_user: User) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
    lifecycle.fail(claim_one().lease, PERMANENT)
    act(admin_client, "retry", first)
    logged = LogEntry.objects.filter(user=admin_user).values_list("object_id", "change_message")
    done = BY_NAME["retry"].done
    assert sorted(logged) == sorted([(first.pk, done), (second.pk, done)])


# -- all that match ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_small_window")
def test_all_that_match_are_meant_also_those_beyond_the_window(admin_client: Client) -> None:
    enqueue_many("tests.noop", [{}] * 40, priority=LOW)
    keep = enqueue("tests.noop")
    one = Job.objects.filter(priority=LOW).order_by("-pk").first()
    query = f"?priority={LOW}"
    page = text_of(ask(admin_client, "cancel", one, query=query, across=True))
    assert 'data-code="ask" data-count="40"' in page
    answer = act(admin_client, "cancel", one, query=query, across=True)
    assert told(answer) == ["job_cancel success"]
    assert numbers_in(said(answer)[0]) == [40]
    assert answer["Location"].endswith(query)
    assert Job.objects.filter(status="cancelled").count() == 40
    assert status_of(keep) == "pending"
    entry = LogEntry.objects.get()
    assert (entry.object_id, numbers_in(entry.object_repr)) == (None, [40])
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
            assert (hidden["action"], hidden["done"], hidden["total"]) == ("cancel", str(10 * requests), "25")
            assert f'value="{40 * requests}"' in text_of(answer), "of the bar, in percent"
            answer = admin_client.post(JOBS, hidden)
    assert requests == 2
    assert told(answer) == ["job_cancel success"]
    assert numbers_in(said(answer)[0]) == [25]
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
    assert told(admin_client.post(JOBS, data)) == ["job_retry success"]
    assert told(admin_client.post(JOBS, data))[-1] == "job_retry warning"
    assert LogEntry.objects.count() == Event.objects.filter(kind="retried").count() == 1


def test_of_many_refusals_a_few_are_told_and_the_rest_counted(admin_client: Client) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        others = [flow.add("tests.noop", after=[first]) for _ in range(5)]
    lifecycle.fail(claim_one().lease, PERMANENT)
    answer = act(admin_client, "retry", *others)
    assert told(answer) == ["job_refused error"] * 3 + ["job_more_refused error", "job_retry warning"]
    assert numbers_in(said(answer)[3]) == [2]
