"""In which order jobs are claimed: priority, then first come first served, with a share for those left waiting."""

import pytest
from pytest_django import Settings

from jobs import HIGH, LOW, NORMAL, enqueue, enqueue_many, lifecycle
from jobs.lifecycle.claiming import aged_quota
from jobs.models import Job
from tests.conftest import Declare
from tests.support.queue.actors import age, claimed_ids, new_worker

pytestmark = pytest.mark.django_db


def test_urgent_jobs_come_first_and_equals_in_the_order_of_their_arrival() -> None:
    low, normal, first_high, second_high, extreme = (
        enqueue("tests.noop", priority=priority).id for priority in (LOW, NORMAL, HIGH, HIGH, -100)
    )
    assert claimed_ids(new_worker(), 10) == [extreme, first_high, second_high, normal, low]


def test_the_order_is_the_same_when_jobs_are_claimed_one_by_one() -> None:
    priorities = [5, 0, 10, 5, 0, 7]
    ids = [enqueue("tests.noop", priority=priority).id for priority in priorities]
    expected = [id for _, id in sorted(zip(priorities, ids, strict=True))]
    worker = new_worker()
    assert [claimed_ids(worker)[0] for _ in ids] == expected


def test_the_order_holds_across_types(declare: Declare) -> None:
    for letter in "abc":
        declare(f"here.{letter}")
    normal_b = enqueue("here.b").id
    normal_a = enqueue("here.a").id
    high_c = enqueue("here.c", priority=HIGH).id
    normal_b2 = enqueue("here.b").id
    high_a = enqueue("here.a", priority=HIGH).id
    worker = new_worker()
    assert claimed_ids(worker, 3) == [high_c, high_a, normal_b]
    assert claimed_ids(worker, 3) == [normal_a, normal_b2]


def test_jobs_of_one_batch_are_claimed_in_the_order_they_were_given() -> None:
    ids = enqueue_many("tests.noop", [{"n": n} for n in range(150)])
    worker = new_worker()
    assert [id for _ in range(3) for id in claimed_ids(worker, 50)] == ids


def test_a_thousand_waiting_urgent_jobs_do_not_delay_a_normal_one() -> None:
    enqueue_many("tests.noop", [{}] * 1000, priority=HIGH, delay=3600)
    normal = enqueue("tests.noop")
    assert claimed_ids(new_worker(), 5) == [normal.id]


def test_a_released_job_keeps_its_place() -> None:
    first, second = (enqueue("tests.noop").id for _ in range(2))
    worker = new_worker()
    (claimed,) = lifecycle.claim(worker, 1)
    lifecycle.release([claimed.lease])
    assert claimed_ids(worker, 2) == [first, second]


def test_a_flood_of_urgent_jobs_does_not_starve_a_low_one_for_ever(settings: Settings) -> None:
    settings.JOBS = {"PRIORITY_AGEING": "60s"}
    low = enqueue("tests.noop", priority=LOW).id
    age([low], 61)
    enqueue_many("tests.noop", [{}] * 50, priority=HIGH)
    assert low in claimed_ids(new_worker(), 4)


def test_the_longest_waiting_is_served_first_among_those_that_waited_too_long(settings: Settings) -> None:
    settings.JOBS = {"PRIORITY_AGEING": "60s"}
    lows = enqueue_many("tests.noop", [{}] * 3, priority=LOW)
    for place, low in enumerate(lows):
        age([low], 100 + place)
    enqueue_many("tests.noop", [{}] * 50, priority=HIGH)
    worker = new_worker()
    served = [low for _ in range(3) for low in claimed_ids(worker, 4) if low in lows]
    assert served == lows[::-1]


def test_those_that_waited_too_long_get_a_share_and_no_more(settings: Settings) -> None:
    settings.JOBS = {"PRIORITY_AGEING": "60s"}
    lows = enqueue_many("tests.noop", [{}] * 50, priority=LOW)
    age(lows, 3600)
    highs = enqueue_many("tests.noop", [{}] * 50, priority=HIGH)
    taken = claimed_ids(new_worker(), 40)
    assert sorted(set(taken) & set(lows)) == lows[:10]
    assert sorted(set(taken) & set(highs)) == highs[:30]


def test_one_at_a_time_too_the_low_job_is_reached(settings: Settings) -> None:
    settings.JOBS = {"PRIORITY_AGEING": "60s"}
    low = enqueue("tests.noop", priority=LOW).id
    age([low], 61)
    enqueue_many("tests.noop", [{}] * 200, priority=HIGH)
    worker = new_worker()
    # A chance of one in four each time: missing it 150 times has odds of 1 : 10^18.
    assert any(low in claimed_ids(worker) for _ in range(150)), "the low job was never reached"


def test_a_fresh_low_job_does_not_pass_a_fresh_urgent_one(settings: Settings) -> None:
    settings.JOBS = {"PRIORITY_AGEING": "60s"}
    low = enqueue("tests.noop", priority=LOW).id
    highs = enqueue_many("tests.noop", [{}] * 20, priority=HIGH)
    worker = new_worker()
    assert claimed_ids(worker, 20) == highs
    assert claimed_ids(worker, 20) == [low]


def test_an_old_job_of_a_type_without_room_does_not_take_the_share_of_others(
    settings: Settings, declare: Declare
) -> None:
    settings.JOBS = {"PRIORITY_AGEING": "60s"}
    declare("here.limited", concurrency=1)
    enqueue("here.limited", priority=HIGH)
    worker = new_worker()
    assert len(claimed_ids(worker)) == 1
    stuck = enqueue("here.limited", priority=LOW).id
    low = enqueue("tests.noop", priority=LOW).id
    age([stuck], 500)
    age([low], 400)
    enqueue_many("tests.noop", [{}] * 20, priority=HIGH)
    taken = claimed_ids(worker, 4)
    assert low in taken
    assert Job.objects.get(pk=stuck).status == "pending"


@pytest.mark.parametrize(
    ("n", "chance", "quota"),
    [(4, 0.99, 1), (8, 0.0, 2), (1, 0.24, 1), (1, 0.25, 0), (6, 0.49, 2), (6, 0.5, 1), (0, 0.0, 0)],
)
def test_one_claim_in_four_is_for_those_that_waited_too_long(n: int, chance: float, quota: int) -> None:
    assert aged_quota(n, chance) == quota
