"""People in the admin: clients with chosen rights, and jobs in states that matter to them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from jobs import enqueue, enqueue_many, lifecycle
from jobs.admin import window
from jobs.lifecycle import FailureReport
from jobs.models import Job
from tests.support.queue.actors import claim_one, new_worker, stored

EVIL = "<script>alert(1)</script>"
PERMANENT = FailureReport("ValueError", "no", permanent=True)
JOBS = "/admin/jobs/job/"


def client_of(*permissions: str, name: str = "clerk") -> Client:
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def failed_job(type_name: str = "tests.noop", **options: Any) -> Job:
    job = enqueue(type_name, **options)
    lifecycle.fail(claim_one().lease, PERMANENT)
    return stored(job)  # type: ignore[no-any-return]


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


@pytest.fixture
def _small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window.find_window, "__defaults__", (10,))


def shown(client: Client, **query: Any) -> set[str]:
    """The ids of the jobs that the list shows."""
    page = client.get(JOBS, query)
    assert page.status_code == 200, query
    return {job.pk for job in page.context["cl"].result_list}


def said(response: Any) -> list[str]:
    """What the page that follows tells the user."""
    return [str(message) for message in get_messages(response.wsgi_request)]


def text_of(response: Any) -> str:
    return str(response.content.decode())


def ask(client: Client, action: str, *rows: Any, query: str = "", across: bool = False) -> Any:
    """Choose an action in the list: the page that asks for confirmation."""
    data = {
        "action": action,
        "index": "0",
        "select_across": "1" if across else "0",
        "_selected_action": [row.pk for row in rows],
    }
    return client.post(JOBS + query, data)


def act(client: Client, action: str, *rows: Any, **given: Any) -> Any:
    """Choose an action in the list and confirm it; the answer to that."""
    query, across = given.pop("query", ""), given.pop("across", False)
    page = ask(client, action, *rows, query=query, across=across)
    assert page.status_code == 200, page
    context = page.context
    return client.post(
        JOBS + query,
        {
            "action": action,
            "select_across": "1" if across else "0",
            "_selected_action": context["selected"],
            "confirmed": "yes",
            "until": context["until"],
            "total": context["count"],
            **given,
        },
    )


def press(client: Client, verb: str, job: Job, **given: Any) -> HttpResponse:
    """A button on the job's page, as the page is now."""
    page = client.get(reverse("admin:jobs_job_change", args=[job.pk]))
    data = {"verb": verb, "seen": page.context["seen"], **given}
    return client.post(reverse("admin:jobs_job_act", args=[job.pk]), data)  # type: ignore[return-value]
