"""The pages of workers and job types: who is there, what they do, keys that are shown once, pause and limits."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from jobs import database, enqueue, enqueue_many, lifecycle, worker_keys
from jobs.admin.job_type import read_rows
from jobs.admin.worker_page import WORKER_VERBS
from jobs.lifecycle import ProgressReport
from jobs.models import JobTypeState, Worker, WorkerKey, WorkerKind
from tests.conftest import Declare
from tests.support.pages.admin_pages import PERMANENT, client_of, said, text_of
from tests.support.pages.codes import codes_on, numbers_in, told
from tests.support.queue.actors import claim_one, new_worker

pytestmark = pytest.mark.django_db

WORKERS = "/admin/jobs/worker/"
TYPES = "/admin/jobs/jobtypestate/"


def page_of(worker: Worker) -> str:
    return reverse("admin:jobs_worker_change", args=[worker.pk])


def act(client: Client, worker: Worker, verb: str) -> Any:
    return client.post(reverse("admin:jobs_worker_act", args=[worker.pk]), {"verb": verb})


def choose(client: Client, action: str, *workers: Worker) -> Any:
    return client.post(WORKERS, {"action": action, "_selected_action": [worker.pk for worker in workers]})


def buttons(client: Client, worker: Worker) -> set[str]:
    page = text_of(client.get(page_of(worker)))
    forms = re.findall(r'<form method="post" action="[^"]*/act/"([^>]*)>(.*?)</form>', page, re.DOTALL)
    shown = [body for attributes, body in forms if "hidden" not in attributes]
    return {verb for body in shown for verb in re.findall(r'name="verb" value="(\w+)"', body)}


# -- workers -----------------------------------------------------------------------------------------------------------


def test_the_list_shows_who_is_there_and_what_they_run(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    busy = new_worker(name="encoder-7", capabilities=["gpu"], concurrency=4)
    enqueue_many("tests.noop", [{}] * 20)
    for claimed in lifecycle.claim(busy, 6):
        lifecycle.report_progress([ProgressReport(claimed.lease, 30, "x")])
    for _ in range(30):
        lifecycle.claim(new_worker(), 1)
    with django_assert_max_num_queries(12):
        page = text_of(admin_client.get(WORKERS))
    counts = ('data-running="6" data-slots="4"', 'data-more="2"')
    for text in ("encoder-7", *counts, "gpu", 'value="30.0"'):
        assert text in page, text


def test_no_worker_yet_says_how_to_start_one(admin_client: Client) -> None:
    assert "manage.py runworker" in text_of(admin_client.get(WORKERS))


def test_workers_are_disabled_enabled_and_drained_from_the_list(admin_client: Client) -> None:
    worker = new_worker()
    assert told(choose(admin_client, "disable", worker)) == ["worker_disable success"]
    assert Worker.objects.get().disabled
    assert told(choose(admin_client, "disable", worker))[-1] == "worker_disable warning"
    choose(admin_client, "enable", worker)
    assert not Worker.objects.get().disabled
    choose(admin_client, "drain", worker)
    assert Worker.objects.get().draining
    logged = LogEntry.objects.order_by("pk").values_list("change_message", flat=True)
    assert list(logged) == [WORKER_VERBS[name].done for name in ("disable", "enable", "drain")]


def test_a_worker_has_the_buttons_that_make_sense(admin_client: Client) -> None:
    worker = new_worker()
    assert buttons(admin_client, worker) == {"disable", "drain"}
    act(admin_client, worker, "disable")
    assert buttons(admin_client, worker) == {"enable", "drain"}
    act(admin_client, worker, "drain")
    assert buttons(admin_client, worker) == {"enable"}
    assert buttons(admin_client, new_worker(status="offline")) == {"disable", "forget"}


def test_a_double_click_on_a_worker_does_it_once(admin_client: Client) -> None:
    worker = new_worker(name="w-1")
    first = act(admin_client, worker, "disable")
    assert told(first) == ["worker_disable success"]
    assert "w-1" in said(first)[0]
    second = act(admin_client, worker, "disable")
    assert told(second)[-1] == "worker_disable warning"
    assert "w-1" in said(second)[-1]
    assert LogEntry.objects.count() == 1
    assert act(admin_client, worker, "explode").status_code == 400


def test_a_worker_that_is_gone_is_forgotten_from_its_page_and_from_the_list(admin_client: Client) -> None:
    gone, also, online = (
        new_worker(name="gone", status="offline"),
        new_worker(name="also", status="offline"),
        new_worker(name="online"),
    )
    answer = act(admin_client, gone, "forget")
    assert (told(answer), answer["Location"]) == (["worker_forget success"], WORKERS)
    assert act(admin_client, gone, "forget").status_code == 404
    assert told(act(admin_client, online, "forget"))[-1] == "worker_forget warning"
    assert told(choose(admin_client, "forget", also, online))[-1] == "worker_forget success"
    assert told(choose(admin_client, "forget", online))[-1] == "worker_forget warning"
    assert list(Worker.objects.values_list("name", flat=True)) == ["online"]
    assert list(LogEntry.objects.order_by("pk").values_list("object_repr", flat=True)) == ["gone", "also"]


def test_a_worker_that_holds_a_job_is_not_forgotten(admin_client: Client) -> None:
    worker = new_worker()
    enqueue("tests.noop")
    claim_one(worker)
    Worker.objects.update(status="offline")
    assert "forget" not in buttons(admin_client, worker)
    assert told(act(admin_client, worker, "forget")) == ["worker_forget warning"]
    assert told(choose(admin_client, "forget", worker))[-1] == "worker_forget warning"
    assert Worker.objects.exists()


def test_the_page_of_a_worker_shows_what_it_runs_and_has_run(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    worker = new_worker()
    enqueue("tests.noop")
    lifecycle.fail(claim_one(worker).lease, PERMANENT)
    enqueue("work.record", log="x")
    lease = claim_one(worker).lease
    lifecycle.report_progress([ProgressReport(lease, 55, "nearly")])
    with django_assert_max_num_queries(12):
        page = text_of(admin_client.get(page_of(worker)))
    for text in ("work.record", "nearly", "tests.noop", "ValueError: no", 'data-status="failed"'):
        assert text in page, text
    assert codes_on(page) == []
    assert codes_on(text_of(admin_client.get(page_of(new_worker())))) == ["nothing_running", "no_history"]


def test_what_moves_on_the_page_of_a_worker_is_in_its_stream(admin_client: Client) -> None:
    worker = new_worker()
    for page, stream in (
        (page_of(worker), reverse("admin:jobs_worker_live", args=[worker.pk])),
        (WORKERS, reverse("admin:jobs_worker_list_live")),
        (TYPES, reverse("admin:jobs_jobtypestate_live")),
    ):
        names = set(re.findall(r'data-live(?:-show)?="([^"]+)"', text_of(admin_client.get(page))))
        state = admin_client.get(stream, headers={"accept": "application/json"}).json()
        assert names, page
        assert names <= set(state), page


# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def remote(admin_client: Client) -> Worker:
    answer = admin_client.post(f"{WORKERS}add/", {"name": "far-away"})
    worker: Worker = Worker.objects.get(name="far-away")
    assert answer["Location"] == page_of(worker)
    return worker


def issue(client: Client, worker: Worker, **given: str) -> Any:
    newest = client.get(page_of(worker)).context["newest_key"]
    data = {"newest_key": newest, "lifetime": "", **given}
    return client.post(reverse("admin:jobs_worker_issue_key", args=[worker.pk]), data)


def revoke(client: Client, worker: Worker, key: object) -> Any:
    return client.post(reverse("admin:jobs_worker_revoke_key", args=[worker.pk]), {"key": key})


def test_a_worker_that_is_added_by_hand_is_a_remote_one_and_holds_its_name(remote: Worker) -> None:
    assert (remote.kind, remote.status) == (WorkerKind.REMOTE, "offline")


def test_a_key_is_shown_once_with_the_command_to_paste(admin_client: Client, remote: Worker) -> None:
    answer = issue(admin_client, remote)
    key = answer.context["new_key"]
    assert worker_keys.verify(key) == remote
    assert f"SPROCKET_KEY={key} sprocket-worker --server http://testserver/api --allow-http" in text_of(
        answer
    )
    assert "no-store" in answer["Cache-Control"]
    later = text_of(admin_client.get(page_of(remote)))
    assert key not in later
    assert f"{key[:8]}…" in later
    assert LogEntry.objects.latest("pk").change_message.endswith(f" {key[:8]}…")
    assert key not in "".join(LogEntry.objects.values_list("change_message", flat=True))


def test_sending_the_form_twice_issues_one_key(admin_client: Client, remote: Worker) -> None:
    newest = str(admin_client.get(page_of(remote)).context["newest_key"])
    issue(admin_client, remote, newest_key=newest)
    again = issue(admin_client, remote, newest_key=newest)
    assert again.status_code == 302
    assert told(again)[-1] == "key_issue warning"
    assert WorkerKey.objects.count() == 1


def test_a_key_may_expire(admin_client: Client, remote: Worker) -> None:
    issue(admin_client, remote, lifetime="30")
    key = WorkerKey.objects.get()
    assert key.expires_at is not None
    assert timedelta(days=29) < key.expires_at - database.read_clock() < timedelta(days=31)
    assert issue(admin_client, remote, lifetime="9999999").status_code == 400


def test_a_key_is_revoked_at_once(admin_client: Client, remote: Worker) -> None:
    key = issue(admin_client, remote).context["new_key"]
    record = WorkerKey.objects.get()
    assert told(revoke(admin_client, remote, record.pk))[-1] == "key_revoke success"
    assert worker_keys.verify(key) is None
    assert told(revoke(admin_client, remote, record.pk))[-1] == "key_revoke warning"
    assert "key_revoked" in codes_on(text_of(admin_client.get(page_of(remote))))


def test_a_key_of_another_worker_is_not_revoked_here(admin_client: Client, remote: Worker) -> None:
    issue(admin_client, remote)
    other = new_worker()
    for key in (WorkerKey.objects.get().pk, "", "x", "9" * 40, "-1"):
        assert revoke(admin_client, other, key).status_code == 404, key
    assert WorkerKey.objects.get().revoked_at is None


def test_local_workers_get_no_keys(admin_client: Client) -> None:
    worker = new_worker()
    assert "/issue-key/" not in text_of(admin_client.get(page_of(worker)))
    assert issue(admin_client, worker).status_code == 400
    assert not WorkerKey.objects.exists()


def test_keys_are_for_those_who_may_handle_keys(remote: Worker) -> None:
    record, _ = worker_keys.issue(remote)
    clerk = client_of("view_worker", "change_worker")
    assert record.prefix not in text_of(clerk.get(page_of(remote)))
    assert issue(clerk, remote).status_code == 403
    assert revoke(clerk, remote, record.pk).status_code == 403
    looker = client_of("view_worker", "view_workerkey", name="looker")
    page = text_of(looker.get(page_of(remote)))
    assert record.prefix in page
    assert "/issue-key/" not in page
    assert "/revoke-key/" not in page
    assert WorkerKey.objects.filter(revoked_at__isnull=True).count() == 1


# -- job types ---------------------------------------------------------------------------------------------------------


def change(client: Client, name: str, verb: str, **given: str) -> Any:
    return client.post(f"{TYPES}act/", {"name": name, "verb": verb, **given})


def test_a_type_is_paused_and_resumed_before_any_worker_knew_it(admin_client: Client) -> None:
    answer = change(admin_client, "tests.noop", "pause")
    assert told(answer) == ["type_pause success"]
    assert "tests.noop" in said(answer)[0]
    assert JobTypeState.objects.get().paused
    assert told(change(admin_client, "tests.noop", "pause"))[-1] == "type_pause warning"
    change(admin_client, "tests.noop", "resume")
    assert not JobTypeState.objects.get().paused
    logged = LogEntry.objects.order_by("pk").values_list("object_id", "change_message")
    assert list(logged) == [("tests.noop", "paused"), ("tests.noop", "resumed")]


def test_a_type_is_limited_and_freed(admin_client: Client) -> None:
    answer = change(admin_client, "tests.noop", "limit", concurrency="3")
    assert told(answer) == ["type_limit success"]
    assert numbers_in(said(answer)[0]) == [3]
    assert JobTypeState.objects.get().concurrency == 3
    change(admin_client, "tests.noop", "limit", concurrency="")
    assert JobTypeState.objects.get().concurrency is None


@pytest.mark.parametrize("given", ["0", "-1", "x", "1.5", "9" * 30, "²"])
def test_what_is_no_limit_is_refused(admin_client: Client, given: str) -> None:
    assert told(change(admin_client, "tests.noop", "limit", concurrency=given)) == ["type_bad_limit error"]
    assert not JobTypeState.objects.exclude(concurrency=None).exists()


def test_a_type_that_nobody_knows_is_not_made_up(admin_client: Client) -> None:
    for name in ("nobody.knows", "", "\0"):
        assert change(admin_client, name, "pause").status_code == 404
    assert change(admin_client, "tests.noop", "explode").status_code == 400
    assert not JobTypeState.objects.exists()


def test_the_counts_of_a_type(declare: Declare) -> None:
    declare("here.counted", concurrency=5)
    enqueue_many("here.counted", [{}] * 5)
    lifecycle.fail(claim_one().lease, PERMANENT)
    claim_one()
    (row,) = [row for row in read_rows() if row.name == "here.counted"]
    assert (row.pending.value, row.running, row.failed.value, row.limit) == (3, 1, 1, 5)


def test_the_page_of_types_takes_few_queries(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(10):
        page = admin_client.get(TYPES)
    assert "tests.noop" in text_of(page)
    assert admin_client.get(f"{TYPES}tests.noop/change/")["Location"] == TYPES
