"""Who may do what in the admin of the queue: deeds are POSTed, permitted one by one, and logged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from jobs import enqueue, worker_keys
from jobs.models import Event, Job, JobTypeState, Worker, WorkerKey, WorkerKind, WorkerStatus
from tests.support.pages.admin_pages import JOBS, act, client_of, failed_job, press, text_of
from tests.support.pages.codes import told
from tests.support.queue.actors import new_worker, status_of

pytestmark = pytest.mark.django_db

MODELS = ("job", "worker", "jobtypestate", "workerkey")
Deed = Callable[[Client], Any]


class Scene:
    """A failed job, a delayed one, a worker with a key; and what can be done to them."""

    def __init__(self) -> None:
        self.failed = failed_job()
        self.delayed = enqueue("tests.noop", delay=3600)
        self.worker = new_worker(kind=WorkerKind.REMOTE)
        self.gone = new_worker(kind=WorkerKind.REMOTE, status=WorkerStatus.OFFLINE)
        self.key, _ = worker_keys.issue(self.worker)
        JobTypeState.objects.get_or_create(name="tests.noop")

    def state(self) -> Any:
        return [
            list(model.objects.order_by("pk").values())
            for model in (Job, Worker, WorkerKey, JobTypeState, Event, LogEntry)
        ]

    def deeds(self) -> dict[str, Deed]:
        """Under the permission that it takes."""
        on_job = reverse("admin:jobs_job_act", args=[self.failed.pk])
        on_worker = reverse("admin:jobs_worker_act", args=[self.worker.pk])
        seen = f"failed.{self.failed.lease_token}.{self.failed.priority}.0"
        listed = {"select_across": "0", "confirmed": "yes"}
        return {
            "retry: change_job": lambda c: c.post(on_job, {"verb": "retry", "seen": seen}),
            "discard: delete_job": lambda c: c.post(on_job, {"verb": "discard", "seen": seen}),
            "retry in the list: change_job": lambda c: c.post(
                JOBS, {"action": "retry", "_selected_action": self.failed.pk, **listed}
            ),
            "cancel in the list: change_job": lambda c: c.post(
                JOBS, {"action": "cancel", "_selected_action": self.delayed.pk, **listed}
            ),
            "run now in the list: change_job": lambda c: c.post(
                JOBS, {"action": "run_now", "_selected_action": self.delayed.pk, **listed}
            ),
            "priority in the list: change_job": lambda c: c.post(
                JOBS,
                {"action": "change_priority", "_selected_action": self.delayed.pk, "priority": "1", **listed},
            ),
            "discard in the list: delete_job": lambda c: c.post(
                JOBS, {"action": "discard", "_selected_action": self.failed.pk, **listed}
            ),
            "all that match: delete_job": lambda c: c.post(
                JOBS,
                {
                    "action": "discard",
                    "_selected_action": self.failed.pk,
                    **listed,
                    "select_across": "1",
                },
            ),
            "disable: change_worker": lambda c: c.post(on_worker, {"verb": "disable"}),
            "drain: change_worker": lambda c: c.post(on_worker, {"verb": "drain"}),
            "forget: delete_worker": lambda c: c.post(
                reverse("admin:jobs_worker_act", args=[self.gone.pk]), {"verb": "forget"}
            ),
            "forget in the list: delete_worker": lambda c: c.post(
                "/admin/jobs/worker/", {"action": "forget", "_selected_action": self.gone.pk}
            ),
            "disable in the list: change_worker": lambda c: c.post(
                "/admin/jobs/worker/", {"action": "disable", "_selected_action": self.worker.pk}
            ),
            "add: add_worker": lambda c: c.post("/admin/jobs/worker/add/", {"name": "new"}),
            "issue: add_workerkey": lambda c: c.post(
                reverse("admin:jobs_worker_issue_key", args=[self.worker.pk]),
                {"newest_key": self.key.pk, "lifetime": ""},
            ),
            "revoke: change_workerkey": lambda c: c.post(
                reverse("admin:jobs_worker_revoke_key", args=[self.worker.pk]), {"key": self.key.pk}
            ),
            "pause: change_jobtypestate": lambda c: c.post(
                "/admin/jobs/jobtypestate/act/", {"name": "tests.noop", "verb": "pause"}
            ),
            "limit: change_jobtypestate": lambda c: c.post(
                "/admin/jobs/jobtypestate/act/", {"name": "tests.noop", "verb": "limit", "concurrency": "2"}
            ),
        }

    def pages(self) -> list[str]:
        return [
            JOBS,
            reverse("admin:jobs_job_change", args=[self.failed.pk]),
            f"{JOBS}live/?job={self.failed.pk}",
            reverse("admin:jobs_job_live", args=[self.failed.pk]),
            "/admin/jobs/worker/",
            reverse("admin:jobs_worker_change", args=[self.worker.pk]),
            reverse("admin:jobs_worker_list_live"),
            reverse("admin:jobs_worker_live", args=[self.worker.pk]),
            "/admin/jobs/jobtypestate/",
            reverse("admin:jobs_jobtypestate_live"),
        ]


DEEDS = (
    "retry: change_job",
    "discard: delete_job",
    "retry in the list: change_job",
    "cancel in the list: change_job",
    "run now in the list: change_job",
    "priority in the list: change_job",
    "discard in the list: delete_job",
    "all that match: delete_job",
    "disable: change_worker",
    "drain: change_worker",
    "forget: delete_worker",
    "forget in the list: delete_worker",
    "disable in the list: change_worker",
    "add: add_worker",
    "issue: add_workerkey",
    "revoke: change_workerkey",
    "pause: change_jobtypestate",
    "limit: change_jobtypestate",
)


def look(client: Client, address: str) -> int:
    return int(client.get(address, headers={"accept": "application/json"}).status_code)


def every(verb: str) -> list[str]:
    return [f"{verb}_{model}" for model in MODELS]


def test_strangers_are_sent_to_the_login() -> None:
    scene = Scene()
    before = scene.state()
    for address in scene.pages():
        answer = Client().get(address)
        if "live" in address:
            assert answer.status_code == 401, address
            continue
        assert (answer.status_code, "/admin/login/" in answer["Location"]) == (302, True), address
    for name, deed in scene.deeds().items():
        answer = deed(Client())
        assert (answer.status_code, "/admin/login/" in answer["Location"]) == (302, True), name
    assert scene.state() == before


def test_staff_without_rights_see_and_do_nothing() -> None:
    scene = Scene()
    client = client_of()
    before = scene.state()
    assert {look(client, address) for address in scene.pages()} == {403}
    assert {deed(client).status_code for deed in scene.deeds().values()} == {403}
    assert scene.state() == before


def test_who_may_only_look_sees_everything_and_can_do_nothing() -> None:
    scene = Scene()
    client = client_of(*every("view"))
    before = scene.state()
    assert {look(client, address) for address in scene.pages()} == {200}
    for name, deed in scene.deeds().items():
        deed(client)
        assert scene.state() == before, name
    for address in scene.pages():
        if "live" not in address:
            assert '<button type="submit" name="verb"' not in text_of(client.get(address)), address


def test_the_deeds_are_these() -> None:
    assert tuple(Scene().deeds()) == DEEDS


@pytest.mark.parametrize("name", DEEDS)
def test_each_deed_takes_its_own_permission(name: str) -> None:
    scene = Scene()
    permission = name.partition(": ")[2]
    others = {f"{verb}_{model}" for verb in ("view", "add", "change", "delete") for model in MODELS} - {
        permission
    }
    before = scene.state()
    scene.deeds()[name](client_of(*others, name="all but this one"))
    assert scene.state() == before
    scene.deeds()[name](client_of(permission, *every("view"), name="this one alone"))
    assert scene.state() != before
    assert LogEntry.objects.count() == 1
    assert LogEntry.objects.get().user.username == "this one alone"


def test_who_may_change_jobs_can_retry_but_not_discard_them() -> None:
    client = client_of("view_job", "change_job")
    first, second = failed_job(), failed_job()
    assert press(client, "discard", first).status_code == 403
    assert told(act(client, "retry", second)) == ["job_retry success"]
    assert (status_of(first), status_of(second)) == ("failed", "pending")
    assert Event.objects.get(kind="retried").actor == "clerk"
    page = text_of(client.get(reverse("admin:jobs_job_change", args=[first.pk])))
    assert 'value="retry"' in page
    assert 'value="discard"' not in page


def test_a_post_without_the_csrf_token_is_refused(admin_user: User) -> None:
    scene = Scene()
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    before = scene.state()
    assert {deed(client).status_code for deed in scene.deeds().values()} == {403}
    assert scene.state() == before


def test_every_deed_is_refused_on_get(admin_client: Client) -> None:
    scene = Scene()
    before = scene.state()
    for name, ident in (("job_act", scene.failed.pk), ("worker_act", scene.worker.pk)):
        assert admin_client.get(reverse(f"admin:jobs_{name}", args=[ident])).status_code == 405
    for name in ("issue_key", "revoke_key"):
        assert (
            admin_client.get(reverse(f"admin:jobs_worker_{name}", args=[scene.worker.pk])).status_code == 405
        )
    assert admin_client.get("/admin/jobs/jobtypestate/act/").status_code == 405
    assert scene.state() == before
