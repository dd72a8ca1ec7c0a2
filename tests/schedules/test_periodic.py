"""Periodic jobs: fired once per tick, caught up as they say, by whoever looks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from jobs import UnknownJobType, database, periodic, recovery, snapshot, watch
from jobs.invariants import broken_rules
from jobs.models import Firing, Job, Schedule, WorkerKind
from jobs.timetable import declarations, schedules
from tests.conftest import Declare
from tests.support.queue.actors import new_worker
from tests.support.queue.constraints import without_constraints
from tests.support.queue.schedules import make_due, make_schedule, ticks_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declarations, "_declared", {})


def stored(name: str) -> Any:
    return Schedule.objects.get(pk=name)


# -- firing ------------------------------------------------------------------------------------------------------------


def test_a_schedule_that_is_due_fires_one_job_and_moves_on() -> None:
    make_schedule(payload={}, priority=7)
    make_due()
    [job_id] = schedules.fire_due()
    job: Any = Job.objects.get()
    assert (job.pk, job.type, job.priority, job.submitter) == (job_id, "tests.noop", 7, "periodic:nightly")
    firing: Any = Firing.objects.get()
    assert (firing.job_id, firing.by_hand, firing.error) == (job_id, False, "")
    assert stored("nightly").next_at > database.read_clock()
    assert schedules.fire_due() == []


def test_its_payload_reaches_the_handler() -> None:
    make_schedule(type="work.record", payload={"log": "/nowhere"})
    make_due()
    schedules.fire_due()
    assert Job.objects.get().payload == {"log": "/nowhere"}


def test_before_its_time_it_does_not_fire() -> None:
    make_schedule(cron="0 0 1 1 *")
    assert schedules.fire_due() == []


@pytest.mark.parametrize(
    ("catch_up", "minutes_ago", "fired"),
    [("skip", 0, 1), ("skip", 30, 1), ("once", 30, 1), ("all", 30, 31), ("all", 500, 100)],
)
def test_ticks_that_nobody_fired_are_made_up_for_as_it_says(
    catch_up: str, minutes_ago: int, fired: int
) -> None:
    make_schedule(catch_up=catch_up)
    make_due(minutes_ago=minutes_ago)
    assert len(schedules.fire_due()) == fired
    ticks = ticks_of()
    assert [later - earlier for earlier, later in pairwise(ticks)] == [timedelta(minutes=1)] * (fired - 1)
    assert database.read_clock() - ticks[-1] < timedelta(minutes=2)


@pytest.mark.parametrize(("catch_up", "fired"), [("skip", 0), ("once", 1)])
def test_a_tick_beyond_the_grace_is_skipped_or_made_up_for(
    catch_up: str, fired: int, settings: Settings
) -> None:
    settings.JOBS = {"PERIODIC_GRACE": "1ms"}
    last = database.read_clock() - timedelta(hours=1)
    make_schedule(cron=f"{last.minute} {last.hour} * * *", catch_up=catch_up)
    Schedule.objects.update(next_at=last.replace(second=0, microsecond=0))
    assert len(schedules.fire_due()) == fired
    assert stored("nightly").next_at > database.read_clock()


def test_a_tick_that_has_fired_does_not_fire_again_although_somebody_sets_it_back() -> None:
    make_schedule(catch_up="all")
    make_due(minutes_ago=2)
    assert len(schedules.fire_due()) == 3
    make_due(minutes_ago=1)
    assert len(schedules.fire_due()) <= 1  # a minute may have passed meanwhile
    assert len(ticks_of()) == len(set(ticks_of()))


def test_a_full_queue_does_not_keep_it_from_firing(settings: Settings) -> None:
    settings.JOBS = {"MAX_DEPTH": 1}
    make_schedule(catch_up="all")
    make_due(minutes_ago=2)
    assert len(schedules.fire_due()) == 3


def test_what_cannot_be_enqueued_is_told_and_the_others_fire(settings: Settings) -> None:
    make_schedule("bulky", payload={"text": "x" * 500})
    make_schedule("nightly")
    make_due("bulky", minutes_ago=1)
    make_due("nightly")
    settings.JOBS = {"PAYLOAD_MAX_BYTES": 100}
    assert len(schedules.fire_due()) == 1
    refused: Any = Firing.objects.get(schedule="bulky")
    assert (refused.job_id, "100" in refused.error) == ("", True)
    assert stored("bulky").next_at > database.read_clock()


def test_an_expression_that_means_nothing_any_more_pauses_it_and_says_why() -> None:
    make_schedule("broken")
    make_schedule("nightly")
    make_due("broken", minutes_ago=1)
    make_due("nightly")
    Schedule.objects.filter(pk="broken").update(timezone="Atlantis/Centre")
    assert len(schedules.fire_due()) == 1
    row = stored("broken")
    assert (row.paused, row.next_at) == (True, None)
    assert "'Atlantis/Centre'" in row.problem
    assert schedules.resume(["broken"]) == []
    Schedule.objects.filter(pk="broken").update(timezone="UTC")
    assert schedules.resume(["broken"]) == ["broken"]
    assert (stored("broken").problem, stored("broken").paused) == ("", False)


def test_a_type_that_this_process_does_not_know_is_left_to_one_that_does(declare: Declare) -> None:
    make_schedule(type="tests.of_tomorrow")
    make_due()
    assert schedules.fire_due() == []
    declare("tests.of_tomorrow")
    assert len(schedules.fire_due()) == 1


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_a_paused_schedule_does_not_fire_and_what_passed_meanwhile_is_not_made_up_for() -> None:
    make_schedule(catch_up="all")
    make_due(minutes_ago=5)
    assert schedules.pause(["nightly", "unheard-of"]) == ["nightly"]
    assert schedules.pause(["nightly"]) == []
    assert schedules.fire_due() == []
    assert schedules.resume(["nightly"]) == ["nightly"]
    assert stored("nightly").next_at > database.read_clock()
    assert schedules.fire_due() == []


def test_run_now_adds_a_job_beside_the_ticks(declare: Declare) -> None:
    make_schedule(cron="0 3 1 1 *")
    before = stored("nightly").next_at
    job = schedules.run_now("nightly")
    assert job is not None
    assert Firing.objects.get(by_hand=True).job_id == job.pk
    assert stored("nightly").next_at == before
    assert schedules.run_now("unheard-of") is None
    Schedule.objects.update(type="tests.unheard_of")
    with pytest.raises(UnknownJobType) as refusal:
        schedules.run_now("nightly")
    assert refusal.value.name == "tests.unheard_of"


# -- who looks ---------------------------------------------------------------------------------------------------------


def test_a_glance_tells_when_the_next_schedule_is_due_in_the_same_statement() -> None:
    worker = new_worker()

    def glance() -> float | None:
        with CaptureQueriesContext(connection) as queries:
            found = recovery.glance(worker.pk).next_firing
        assert len(queries) == 1
        return found

    recovery.glance()  # the first of a process also looks whether the table is there
    assert glance() is None
    make_schedule()
    until = glance()
    assert until is not None
    assert 0 < until <= 60
    make_due()
    assert (glance() or 1) <= 0
    schedules.pause(["nightly"])
    assert glance() is None


def test_until_migrate_has_made_the_tables_a_worker_does_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database, "_present", set())
    monkeypatch.setattr(connection.introspection, "table_names", lambda *args, **kwargs: ["jobs_job"])
    with CaptureQueriesContext(connection) as queries:
        schedules.sync_declared()
        assert recovery.glance(new_worker().pk).next_firing is None
        assert recovery.sweep()
        assert snapshot()["breakers"] == {}
    new = ("jobs_schedule", "jobs_firing", "jobs_breaker")
    assert [
        query["sql"] for query in queries.captured_queries if any(name in query["sql"] for name in new)
    ] == []


def test_where_all_workers_are_remote_the_site_fires() -> None:
    periodic("tests.noop", cron="* * * * *")
    make_schedule("nightly")
    make_due("nightly")
    watch.Watch().look()
    assert not Firing.objects.exists(), "nobody would run it"
    new_worker(kind=WorkerKind.REMOTE)
    watch.Watch().look()
    assert Firing.objects.filter(schedule="nightly").count() == 1
    assert stored("tests.noop").next_at is not None


def test_firings_are_forgotten_with_the_jobs(settings: Settings) -> None:
    make_schedule()
    make_due()
    schedules.fire_due()
    recovery.prune_the_rest()
    assert Firing.objects.count() == 1
    Firing.objects.update(fired_at=database.now_minus(timedelta(days=31)))
    recovery.prune_the_rest()
    assert not Firing.objects.exists()


def _fire_twice(now: datetime) -> None:
    for _ in range(2):
        Firing.objects.create(schedule_id="nightly", tick=now, job_id="x")


def _break_next(now: datetime) -> None:
    Firing.objects.create(schedule_id="nightly", tick=now + timedelta(days=1), job_id="x")


@pytest.mark.parametrize(
    ("rule", "break_it"),
    [
        ("a schedule has a next firing exactly", lambda now: Schedule.objects.update(next_at=None)),
        ("a schedule has a next firing exactly", lambda now: Schedule.objects.update(paused=True)),
        ("a tick of a schedule fires once", _fire_twice),
        ("a firing has brought a job", lambda now: Firing.objects.create(schedule_id="nightly", tick=now)),
        ("the next firing of a schedule lies after", _break_next),
    ],
)
def test_the_rules_of_schedules_are_shown_to_fail(rule: str, break_it: Callable[[datetime], object]) -> None:
    make_schedule()
    with without_constraints():
        break_it(database.read_clock())
        assert [rule] == [violation.rule[: len(rule)] for violation in broken_rules()]
