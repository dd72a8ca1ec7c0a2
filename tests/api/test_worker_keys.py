"""Keys of remote workers: shown once, stored as a digest, several per worker, revocable at once."""

import hashlib
from datetime import timedelta
from unittest.mock import patch

import pytest

from jobs import database, worker_keys
from jobs.models import WorkerKey
from tests.support.queue.actors import new_worker

pytestmark = pytest.mark.django_db


def test_a_key_opens_the_door_for_its_worker() -> None:
    worker = new_worker()
    record, key = worker_keys.issue(worker, actor="anna")
    assert worker_keys.verify(key) == worker
    assert record.created_by == "anna"


def test_a_key_has_256_bits_and_only_its_digest_and_first_characters_are_stored() -> None:
    record, key = worker_keys.issue(new_worker())
    assert len(key) * 6 >= 256
    row = WorkerKey.objects.filter(pk=record.pk).values().get()
    assert (row["prefix"], row["sha256"]) == (key[:8], hashlib.sha256(key.encode()).hexdigest())
    assert not [name for name, value in row.items() if key[8:] in str(value)]


def test_a_worker_has_several_keys_and_one_can_be_revoked_alone() -> None:
    worker = new_worker()
    first, first_key = worker_keys.issue(worker)
    _, second_key = worker_keys.issue(worker)
    assert worker_keys.revoke([first.pk], actor="anna") == [first.pk]
    assert worker_keys.verify(first_key) is None
    assert worker_keys.verify(second_key) is not None
    first.refresh_from_db()
    assert first.revoked_by == "anna"
    assert first.revoked_at is not None


def test_revoking_twice_changes_nothing_the_second_time() -> None:
    record, _ = worker_keys.issue(new_worker())
    worker_keys.revoke([record.pk], actor="anna")
    before = WorkerKey.objects.values().get()
    assert worker_keys.revoke([record.pk], actor="bert") == []
    assert WorkerKey.objects.values().get() == before


def test_an_expired_key_opens_nothing() -> None:
    worker = new_worker()
    _, key = worker_keys.issue(worker, lifetime=timedelta(days=30))
    assert worker_keys.verify(key) == worker
    WorkerKey.objects.update(expires_at=database.now_minus(timedelta(seconds=1)))
    assert worker_keys.verify(key) is None


@pytest.mark.parametrize(
    "key", ["", "x", "ü" * 43, "\0" * 43, "a" * 42, "a" * 44, "a" * 43 + "\n", "a" * 10_000_000]
)
def test_what_is_no_key_opens_nothing(key: str) -> None:
    assert worker_keys.verify(key) is None


def test_a_key_with_the_prefix_of_another_opens_nothing() -> None:
    _, key = worker_keys.issue(new_worker())
    assert worker_keys.verify(key[:8] + "A" * 35) is None


def test_two_keys_with_the_same_prefix_are_told_apart() -> None:
    workers = [new_worker(), new_worker()]
    keys = ["sameprefix" + letter * 33 for letter in "ab"]
    with patch("jobs.worker_keys.secrets.token_urlsafe", side_effect=keys):
        for worker in workers:
            worker_keys.issue(worker)
    assert [worker_keys.verify(key) for key in keys] == workers


def test_the_use_of_a_key_is_noted_but_not_at_every_request() -> None:
    record, key = worker_keys.issue(new_worker())
    assert record.last_used_at is None
    worker_keys.verify(key)
    used_at = WorkerKey.objects.values_list("last_used_at", flat=True)
    first = used_at.get()
    assert first is not None
    worker_keys.verify(key)
    assert used_at.get() == first
    WorkerKey.objects.update(last_used_at=database.now_minus(timedelta(minutes=2)))
    worker_keys.verify(key)
    assert WorkerKey.objects.filter(last_used_at__gte=first).exists()


def test_the_key_of_nobody_notes_nothing() -> None:
    record, key = worker_keys.issue(new_worker())
    worker_keys.revoke([record.pk])
    worker_keys.verify(key)
    assert WorkerKey.objects.get().last_used_at is None
