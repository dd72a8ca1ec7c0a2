"""The queue in the Django admin: every page loads, texts stay texts, actions are POSTed, permitted and logged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from jobs import HIGH, enqueue, lifecycle, workflow
from jobs.lifecycle import FailureReport, ProgressReport
from jobs.models import DERIVED_STATES, Event, Job, JobTypeState, Status, Worker
from tests.actors import claim_one, new_worker, status_of
from tests.conftest import Declare

pytestmark = pytest.mark.django_db

EVIL = "<script>alert(1)</script>"
PERMANENT = FailureReport("ValueError", "no", permanent=True)

Act = Callable[..., str]


@pytest.fixture
def act(admin_client: Client) -> Act:
    """`act("cancel", job)` POSTs an action on some rows, as the list's form does; what the next page says."""

    def act(action: str, *rows: Any, client: Client = admin_client) -> str:
        return post(client, action, *rows)

    return act


def post(client: Client, action: str, *rows: Any) -> str:
    address = reverse(f"admin:jobs_{type(rows[0])._meta.model_name}_changelist")
    data = {"action": action, "_selected_action": [row.pk for row in rows]}
    return client.post(address, data, follow=True).content.decode()


def failed_job() -> Job:
    job = enqueue("tests.noop")
    lifecycle.fail(claim_one().lease, PERMANENT)
    return job


# -- pages -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def evil_rows(declare: Declare) -> list[Any]:
    """One row of each model, with HTML wherever somebody else decides on a text."""
    declare(EVIL)
    worker = new_worker(name=EVIL, capabilities=[EVIL], version="<b>1</b>")
    job = enqueue(EVIL, {"text": EVIL}, unique_key=EVIL, submitter=EVIL, correlation_id=EVIL)
    lease = claim_one(worker).lease
    lifecycle.report_progress([ProgressReport(lease, 40, EVIL)])
    lifecycle.fail(lease, FailureReport(EVIL, EVIL, EVIL, permanent=True))
    lifecycle.retry(job.id, actor=EVIL)
    lease = claim_one(worker).lease
    lifecycle.complete(lease, {"result": EVIL})
    state, _ = JobTypeState.objects.get_or_create(name=EVIL)
    return [job, worker, state]


def test_every_list_and_every_detail_page_loads_and_html_in_names_stays_text(
    admin_client: Client, evil_rows: list[Any]
) -> None:
    for row in evil_rows:
        model = type(row)._meta.model_name
        for address in (
            reverse(f"admin:jobs_{model}_changelist"),
            reverse(f"admin:jobs_{model}_change", args=[row.pk]),
        ):
            page = admin_client.get(address)
            assert page.status_code == 200, address
            assert "&lt;script&gt;alert(1)" in page.content.decode(), address
            assert "<script>alert(1)" not in page.content.decode(), address


def test_every_filter_and_the_search_work(admin_client: Client) -> None:
    job = failed_job()
    enqueue("tests.noop", delay=60, priority=HIGH)
    address = reverse("admin:jobs_job_changelist")
    queries: list[dict[str, str]] = [
        *({"status__exact": status.value} for status in Status),
        *({"state": state} for state in DERIVED_STATES),
        {"type": "tests.noop"},
        {"priority": str(HIGH)},
        {"q": job.id},
        {"q": "nothing of the kind"},
    ]
    for query in queries:
        assert admin_client.get(address, query).status_code == 200, query
    assert job.id in admin_client.get(address, {"state": "failed"}).content.decode()
    assert job.id not in admin_client.get(address, {"state": "retrying"}).content.decode()


def test_the_list_takes_the_same_number_of_queries_for_many_jobs(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    for _ in range(60):
        enqueue("tests.noop")
    with django_assert_max_num_queries(12):
        admin_client.get(reverse("admin:jobs_job_changelist"))


def test_nobody_adds_changes_or_deletes_a_job_by_form(admin_client: Client) -> None:
    job = failed_job()
    assert admin_client.get("/admin/jobs/job/add/").status_code == 403
    assert admin_client.post(f"/admin/jobs/job/{job.id}/delete/", {"post": "yes"}).status_code == 403
    before = Job.objects.filter(pk=job.pk).values().get()
    admin_client.post(
        f"/admin/jobs/job/{job.id}/change/", {"status": "completed", "priority": 1, "type": "x"}
    )
    assert Job.objects.filter(pk=job.pk).values().get() == before


# -- actions on jobs -------------------------------------------------------------------------------------------------


def test_failed_jobs_are_retried(act: Act) -> None:
    first, second, running = failed_job(), failed_job(), enqueue("tests.noop")
    assert "2 retried." in act("retry", first, second, running)
    assert [status_of(job) for job in (first, second)] == ["pending", "pending"]
    assert set(Event.objects.filter(kind="retried").values_list("actor", flat=True)) == {"admin"}


def test_jobs_are_cancelled(act: Act) -> None:
    job = enqueue("tests.noop")
    assert "1 cancelled." in act("cancel", job)
    assert status_of(job) == "cancelled"


def test_delayed_jobs_are_run_now(act: Act) -> None:
    job = enqueue("tests.noop", delay=60)
    assert "1 made pending." in act("run_now", job)
    assert status_of(job) == "pending"


def test_the_priority_is_changed(act: Act) -> None:
    job = enqueue("tests.noop")
    assert "1 given priority high." in act("make_high", job)
    assert Job.objects.get(pk=job.pk).priority == HIGH


def test_finished_jobs_are_discarded_and_the_log_remembers_them(act: Act) -> None:
    job = failed_job()
    assert "1 discarded." in act("discard", job)
    assert not Job.objects.exists()
    assert LogEntry.objects.get().object_id == job.id


def test_what_is_not_possible_is_said_and_not_logged(act: Act) -> None:
    job = enqueue("tests.noop")
    assert "None could be retried." in act("retry", job)
    assert "cancel them first" in act("discard", job)
    assert status_of(job) == "pending"
    assert not LogEntry.objects.exists()


def test_a_refused_retry_says_which_job_to_retry_instead(act: Act) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
    lifecycle.fail(claim_one().lease, PERMANENT)
    assert f"needs {first.id}, which did not complete; retry that one instead." in act("retry", second)
    assert status_of(second) == "cancelled"


def test_every_job_that_an_action_changed_is_in_the_log(act: Act, admin_user: User) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
    lifecycle.fail(claim_one().lease, PERMANENT)
    act("retry", first)
    logged = LogEntry.objects.filter(user=admin_user).values_list("object_id", "change_message")
    assert sorted(logged) == sorted([(first.id, "retried"), (second.id, "retried")])


# -- actions on workers and types ------------------------------------------------------------------------------------


def test_workers_are_disabled_enabled_and_drained(act: Act) -> None:
    worker = new_worker()
    assert "1 disabled." in act("disable", worker)
    assert Worker.objects.get().disabled
    assert "None could be disabled." in act("disable", worker)
    assert "1 enabled." in act("enable", worker)
    assert not Worker.objects.get().disabled
    assert "1 asked to drain." in act("drain", worker)
    assert Worker.objects.get().draining
    messages = LogEntry.objects.order_by("pk").values_list("change_message", flat=True)
    assert list(messages) == ["disabled", "enabled", "asked to drain"]


def test_types_are_paused_resumed_and_limited(act: Act, admin_client: Client) -> None:
    state = JobTypeState.objects.create(name="tests.noop")
    assert "1 job type(s) paused." in act("pause", state)
    assert JobTypeState.objects.get().paused
    assert "1 job type(s) resumed." in act("resume", state)
    admin_client.post(f"/admin/jobs/jobtypestate/{state.pk}/change/", {"concurrency": "0"})
    assert JobTypeState.objects.get().concurrency == 0
    page = admin_client.get("/admin/jobs/jobtypestate/").content.decode()
    assert '<td class="field-limit">0</td>' in page
    assert LogEntry.objects.count() == 3


# -- permissions -----------------------------------------------------------------------------------------------------


def client_of(*permissions: str) -> Client:
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def test_who_may_only_look_can_do_nothing() -> None:
    client = client_of("view_job", "view_worker", "view_jobtypestate")
    job, worker = failed_job(), new_worker()
    state = JobTypeState.objects.create(name="tests.noop")
    before = Job.objects.values().get(), Worker.objects.order_by("pk").values().last()
    for action in ("retry", "cancel", "run_now", "make_high", "discard"):
        post(client, action, job)
    for action in ("disable", "enable", "drain"):
        post(client, action, worker)
    post(client, "pause", state)
    assert (Job.objects.values().get(), Worker.objects.order_by("pk").values().last()) == before
    assert not JobTypeState.objects.get().paused
    assert not LogEntry.objects.exists()
    assert client.get("/admin/jobs/job/").status_code == 200


def test_who_may_change_jobs_can_retry_but_not_discard_them() -> None:
    client = client_of("view_job", "change_job")
    first, second = failed_job(), failed_job()
    post(client, "discard", first)
    post(client, "retry", second)
    assert (status_of(first), status_of(second)) == ("failed", "pending")
    assert Event.objects.get(kind="retried").actor == "clerk"


def test_who_may_nothing_sees_nothing() -> None:
    client = client_of()
    assert client.get("/admin/jobs/job/").status_code == 403
    assert client.get("/admin/jobs/worker/").status_code == 403


def test_strangers_are_sent_to_the_login() -> None:
    job = failed_job()
    answer = Client().post("/admin/jobs/job/", {"action": "retry", "_selected_action": job.id})
    assert answer.status_code == 302
    assert "/admin/login/" in answer["Location"]
    assert status_of(job) == "failed"


def test_nothing_changes_on_get(admin_client: Client) -> None:
    job = failed_job()
    admin_client.get("/admin/jobs/job/", {"action": "retry", "_selected_action": job.id})
    assert status_of(job) == "failed"


def test_a_post_without_the_csrf_token_is_refused(admin_user: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    job = failed_job()
    answer = client.post("/admin/jobs/job/", {"action": "retry", "_selected_action": job.id})
    assert answer.status_code == 403
    assert status_of(job) == "failed"
