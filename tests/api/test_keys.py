"""Who gets in: keys in every wrong form, registration with the admin secret, and how often one may try."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.test import Client

from jobs import database, remote, worker_keys
from jobs.models import RateWindow, Worker, WorkerKey
from tests.support.queue.actors import new_worker
from tests.support.remote.remote_client import (
    SECRET,
    RemoteClient,
    enqueue_remote,
    further_key,
    good,
    refused,
)
from tests.support.remote.remote_fixtures import far as far  # fixtures
from tests.support.remote.remote_fixtures import remote_type as remote_type

pytestmark = pytest.mark.django_db

HEARTBEAT = "/api/worker/heartbeat"


def beat(path: str = HEARTBEAT, **headers: str) -> Any:
    return Client().post(
        path,
        {"status": "idle"},
        content_type="application/json",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_key_comes_as_bearer_or_in_a_header_of_its_own(far: RemoteClient) -> None:
    assert good(beat(Authorization=f"Bearer {far.key}"))["name"] == "far-away"
    assert good(beat(Authorization=f"bearer  {far.key} "))["name"] == "far-away"
    assert good(beat(X_Worker_API_Key=far.key))["name"] == "far-away"
    assert good(beat(X_Worker_API_Key=far.key, Authorization=f"Bearer {far.key}"))["name"] == "far-away"
    assert good(beat(X_Worker_API_Key=far.key, Authorization="Basic YTpi"))["name"] == "far-away"


def test_without_a_key_nobody_gets_in(far: RemoteClient) -> None:
    answer = beat()
    assert refused(answer, 401, "not_authenticated")
    assert answer["WWW-Authenticate"] == "Bearer"
    assert refused(beat(Authorization=far.key), 401, "not_authenticated")
    assert refused(beat(Authorization=f"Basic {far.key}"), 401, "not_authenticated")


@pytest.mark.parametrize("name", ["key", "api_key", "X-Worker-API-Key", "Authorization", "token"])
def test_a_key_in_the_query_string_is_not_looked_at(far: RemoteClient, name: str) -> None:
    assert refused(beat(f"{HEARTBEAT}?{name}={far.key}"), 401, "not_authenticated")
    assert WorkerKey.objects.filter(last_used_at__isnull=False).count() == 1, "from the first heartbeat"


@pytest.mark.parametrize(
    "key",
    ["", "x", "a" * 42, "a" * 44, "a" * 43, "ü" * 43, "a" * 43 + ",b", "Bearer " + "a" * 43, "a" * 7000],
)
def test_a_malformed_key_opens_nothing(far: RemoteClient, key: str) -> None:
    assert refused(beat(Authorization=f"Bearer {key}"), 401, "key_unknown")
    assert refused(beat(X_Worker_API_Key=key), 401, "key_unknown")


def test_a_key_with_the_prefix_of_another_opens_nothing(far: RemoteClient) -> None:
    assert refused(beat(X_Worker_API_Key=far.key[:8] + "A" * 35), 401, "key_unknown")
    assert refused(
        beat(X_Worker_API_Key=far.key[:-1] + ("A" if far.key[-1] != "A" else "B")), 401, "key_unknown"
    )


def test_two_different_keys_at_once_open_nothing(far: RemoteClient) -> None:
    other = further_key(far)
    assert refused(beat(Authorization=f"Bearer {far.key}", X_Worker_API_Key=other.key), 401, "key_unknown")


def test_a_revoked_or_expired_key_opens_nothing_and_its_holder_is_told_why(far: RemoteClient) -> None:
    second = further_key(far)
    worker_keys.revoke([WorkerKey.objects.get(prefix=far.key[:8]).pk])
    assert refused(beat(X_Worker_API_Key=far.key), 401, "key_revoked")
    good(beat(X_Worker_API_Key=second.key))
    WorkerKey.objects.update(expires_at=database.now_minus(timedelta(seconds=1)))
    assert refused(beat(X_Worker_API_Key=second.key), 401, "key_expired")


def test_a_key_that_is_revoked_in_mid_job_ends_everything_at_once(far: RemoteClient) -> None:
    job_id = enqueue_remote()
    job = far.claim_one()
    worker_keys.revoke_all(far.worker)
    for verb in ("progress", "complete", "fail", "release"):
        assert refused(far.report(verb, job), 401, "key_revoked")
    assert refused(far.ask(), 401, "key_revoked")
    assert refused(far.send("heartbeat", {"status": "busy", "running": []}), 401, "key_revoked")
    further = further_key(far)
    good(further.report("complete", job))
    assert job_id == job["job_id"]


def test_a_key_of_a_worker_that_is_no_remote_one_opens_nothing() -> None:
    _, key = worker_keys.issue(new_worker())
    assert refused(beat(X_Worker_API_Key=key), 401, "key_unknown")


def test_the_use_of_a_key_is_written_once_a_minute(far: RemoteClient) -> None:
    used: Any = WorkerKey.objects.values_list("last_used_at", flat=True)
    first = used.get()
    far.heartbeat()
    assert used.get() == first
    WorkerKey.objects.update(last_used_at=database.now_minus(timedelta(seconds=61)))
    far.heartbeat()
    assert used.get() >= first


def test_a_worker_key_opens_nothing_of_the_staff(far: RemoteClient) -> None:
    for path in ("jobs", "queue", "workers"):
        answer = Client().get(f"/api/{path}", headers={"Authorization": f"Bearer {far.key}"})
        assert refused(answer, 401, "wrong_token")


# -- how often ---------------------------------------------------------------------------------------------------------


def test_wrong_keys_are_limited_and_right_ones_are_not(far: RemoteClient, settings: Any) -> None:
    """Whoever shares an address with a worker, or a proxy with all of them, cannot lock it out."""
    settings.JOBS = {**settings.JOBS, "FAILED_AUTH_RATE": 3}
    wrong = "A" * 43
    for _ in range(3):
        assert refused(beat(X_Worker_API_Key=wrong), 401, "key_unknown")
    answer = beat(X_Worker_API_Key=wrong)
    assert refused(answer, 429, "too_many_tries")
    assert 1 <= int(answer["Retry-After"]) <= 60
    good(beat(X_Worker_API_Key=far.key))
    assert refused(beat(Authorization=f"Bearer {wrong}"), 429)


def test_a_missing_key_costs_no_statement(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert refused(beat(), 401)


@pytest.mark.parametrize(("proxies", "limited"), [(0, True), (1, False)])
def test_the_address_that_a_proxy_names_counts_only_where_proxies_are_trusted(
    settings: Any, proxies: int, limited: bool
) -> None:
    settings.JOBS = {**settings.JOBS, "FAILED_AUTH_RATE": 1, "TRUSTED_PROXIES": proxies}
    for address in ("192.0.2.1", "192.0.2.2"):
        last = beat(X_Worker_API_Key="A" * 43, X_Forwarded_For=address)
    assert (last.status_code == 429) is limited
    assert RateWindow.objects.count() == (1 if limited else 2)


# -- registration ------------------------------------------------------------------------------------------------------


def register(body: Any = None, secret: str | None = SECRET) -> Any:
    return Client().post(
        "/api/worker/register",
        {"name": "new"} if body is None else body,
        content_type="application/json",
        headers={} if secret is None else {"X-Admin-Secret": secret},
    )


@pytest.fixture
def open_to_registration(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "WORKER_ADMIN_SECRET": SECRET}


def test_without_a_secret_registration_is_off() -> None:
    for secret in (None, "", SECRET):
        assert "WORKER_ADMIN_SECRET" in refused(register(secret=secret), 503, "registration_off")
    assert not Worker.objects.exists()


@pytest.mark.usefixtures("open_to_registration")
def test_with_the_secret_a_worker_gets_its_key_once() -> None:
    told = {"name": "new", "capabilities": ["gpu"], "concurrency": 2, "version": "1", "metadata": {"a": 1}}
    answer = register(told)
    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    given = answer.json()
    worker = Worker.objects.get(pk=given["worker_id"])
    assert (worker.name, worker.kind, worker.concurrency, worker.metadata) == ("new", "remote", 2, {"a": 1})
    assert (worker.capabilities, worker.version) == (["gpu"], "1")
    assert given["types"] == worker.job_types == remote.offered()
    enqueue_remote()
    client = RemoteClient(worker, given["api_key"])
    client.heartbeat()
    assert len(client.claim()) == 1
    assert given["api_key"] not in str([list(WorkerKey.objects.values()), list(Worker.objects.values())])


@pytest.mark.usefixtures("open_to_registration")
@pytest.mark.parametrize("secret", [None, "", "x", SECRET[:-1], SECRET + "x", SECRET.upper(), "ü" * 20])
def test_a_wrong_secret_registers_nobody(secret: str | None) -> None:
    assert refused(register(secret=secret), 401, "wrong_secret")
    assert not Worker.objects.exists()


@pytest.mark.usefixtures("open_to_registration")
def test_the_secret_is_compared_in_constant_time() -> None:
    with patch("jobs.api.authentication.constant_time_compare", return_value=False) as compare:
        assert refused(register(), 401)
    compare.assert_called_once_with(SECRET, SECRET)


@pytest.mark.usefixtures("open_to_registration")
@pytest.mark.parametrize("name", ["", " x", "x" * 101, "a\nb", "a\0b", "<b>", "../x", 5, None, "\u202ex"])
def test_a_name_that_would_look_like_something_else_is_refused(name: Any) -> None:
    assert refused(register({"name": name}), 422, "invalid").startswith("name: ")
    assert not Worker.objects.exists()


@pytest.mark.usefixtures("open_to_registration")
def test_a_name_that_is_taken_is_refused_and_leaves_nothing() -> None:
    new_worker(name="new")
    assert refused(register(), 409, "name_taken")
    assert (Worker.objects.count(), WorkerKey.objects.count()) == (1, 0)


@pytest.mark.usefixtures("open_to_registration")
def test_registration_is_limited_before_the_secret_is_looked_at(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "REGISTRATION_RATE": 2}
    assert refused(register(secret="wrong"), 401)
    assert register().status_code == 201
    for secret in ("wrong", SECRET):
        answer = register({"name": "other"}, secret)
        assert refused(answer, 429, "too_many_tries")
        assert int(answer["Retry-After"]) >= 1


def test_a_secret_that_could_be_guessed_is_refused_at_start_up_without_being_shown() -> None:
    from jobs.conf import find_problems

    (problem,) = find_problems({"WORKER_ADMIN_SECRET": "hunter2"})
    assert "16" in problem
    assert "hunter2" not in problem
    assert find_problems({"MIN_WORKER_VERSION": "new"}) != []
    assert find_problems({"MIN_WORKER_VERSION": "1.2", "WORKER_ADMIN_SECRET": SECRET}) == []
