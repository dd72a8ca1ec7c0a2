"""A type's limit per worker: one machine runs no more of it at once, whatever its free slots."""

import pytest

from jobs import enqueue_many, lifecycle
from jobs.exceptions import BadValue
from tests.conftest import Declare
from tests.support.queue.actors import new_worker

pytestmark = pytest.mark.django_db


def test_a_worker_claims_no_more_of_a_type_than_it_may_run_at_once(declare: Declare) -> None:
    declare("here.heavy", per_worker=2)
    declare("here.light")
    enqueue_many("here.heavy", [{}] * 5)
    enqueue_many("here.light", [{}] * 5)
    claimed = [job.type for job in lifecycle.claim(new_worker(), 6)]
    assert sorted(claimed) == ["here.heavy"] * 2 + ["here.light"] * 4


def test_what_a_worker_runs_already_counts(declare: Declare) -> None:
    declare("here.heavy", per_worker=2)
    enqueue_many("here.heavy", [{}] * 5)
    worker = new_worker()
    assert len(lifecycle.claim(worker, 8, running={"here.heavy": 1})) == 1
    assert lifecycle.claim(worker, 8, running={"here.heavy": 2}) == []


def test_each_worker_has_places_of_its_own_below_the_limit_of_the_fleet(declare: Declare) -> None:
    declare("here.heavy", per_worker=2, concurrency=3)
    enqueue_many("here.heavy", [{}] * 5)
    assert len(lifecycle.claim(new_worker(), 8)) == 2
    assert len(lifecycle.claim(new_worker(), 8)) == 1


def test_a_limit_per_worker_below_one_is_refused(declare: Declare) -> None:
    with pytest.raises(BadValue) as refusal:
        declare("here.heavy", per_worker=0)
    assert refusal.value.code == "bad_per_worker"
