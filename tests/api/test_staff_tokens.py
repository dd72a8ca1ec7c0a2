"""The admin API of the queue: tokens that act as a member of the staff, and what makes them void."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core import signing

from jobs import staff_tokens
from jobs.exceptions import BadValue
from tests.conftest import RunManage
from tests.support.pages.admin_pages import failed_job
from tests.support.pages.staff_client import bearer, get
from tests.support.remote.remote_client import good, refused

pytestmark = pytest.mark.django_db


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
    assert refused(get(bearer(staff_tokens.issue(clerk, timedelta(hours=1))), "jobs"), 403, "forbidden")


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
    assert refused(get(bearer(token), "queue"), 401, "wrong_token")


@pytest.mark.parametrize("token", ["", "x", "a:b:c", "a" * 5000, "ü", "WyIxIiwzNjAwLCJ4Il0:1:x"])
def test_what_is_no_token_opens_nothing_and_is_limited(root: User, token: str, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "FAILED_AUTH_RATE": 1}
    assert refused(get(bearer(token), "queue"), 401, "wrong_token")
    assert refused(get(bearer(token), "queue"), 429, "too_many_tries")


def test_a_token_for_other_purposes_opens_nothing(root: User) -> None:
    assert staff_tokens.verify(signing.dumps([str(root.pk), 3600, "x"])) is None
    assert staff_tokens.verify(signing.dumps([str(root.pk), 3600, "x"], salt="jobs.staff_tokens")) is None


def test_tokens_are_for_staff_and_for_a_bounded_time(root: User) -> None:
    visitor = User.objects.create_user("visitor")
    with pytest.raises(BadValue) as refusal:
        staff_tokens.issue(visitor, timedelta(hours=1))
    assert refusal.value.code == "not_staff"
    for lifetime in (timedelta(0), timedelta(days=400)):
        with pytest.raises(BadValue) as refusal:
            staff_tokens.issue(root, lifetime)
        assert refusal.value.code == "bad_lifetime"


@pytest.mark.django_db(transaction=True)
def test_the_command_prints_a_token(run_manage: RunManage) -> None:
    User.objects.create_superuser("root")
    token = run_manage("stafftoken", "root", "--lifetime=1h").stdout.strip()
    good(get(bearer(token), "queue"))
    for arguments in (["nobody"], ["root", "--lifetime=banana"], ["root", "--lifetime=9999d"]):
        refusal = run_manage("stafftoken", *arguments, check=False)
        assert refusal.returncode == 1
        assert "Traceback" not in refusal.stderr
