"""The call sites that docs/django-tasks.md gives to those who come from Celery, as they are written there."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from jobs.models import Job
from jobs.testing import run_due_jobs
from tests.jobapp import tasks
from tests.support import ROOT

pytestmark = pytest.mark.django_db

PAGE = (ROOT / "docs" / "django-tasks.md").read_text()
TABLE = dict(
    re.findall(r"^\| (.+?) \| (.+?) \|$", PAGE.split("| Celery | here |\n|---|---|\n")[1], re.MULTILINE)
)


def call(row: str) -> Any:
    """What stands in the right column of the row that begins so; `total` is a task that gives back what it gets."""
    (code,) = (here for celery, here in TABLE.items() if celery.startswith(f"`{row}"))
    names = {"total": tasks.give, "timezone": timezone, "timedelta": timedelta}
    return eval(code.strip("`").replace("…", "[3, 4]"), names)


def test_delay() -> None:
    result = call("total.delay(")
    run_due_jobs()
    result.refresh()
    assert result.return_value == [3, 4]
    assert tasks.give.get_result(result.id).status == "SUCCESSFUL"


def test_apply_async() -> None:
    result = call("total.apply_async(")
    job = Job.objects.get()
    assert (job.type, job.priority, job.status) == ("django.task.mail", 5 - 9, "waiting")
    assert run_due_jobs() == []
    run_due_jobs(ahead=timedelta(minutes=1))
    result.refresh()
    assert result.return_value == [3, 4]


def test_on_commit_is_not_needed() -> None:
    with transaction.atomic():
        call("transaction.on_commit(")
        transaction.set_rollback(True)
    assert not Job.objects.exists()
    with transaction.atomic():
        call("transaction.on_commit(")
    assert len(run_due_jobs()) == 1
