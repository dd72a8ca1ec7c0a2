"""Exactly one firing per tick: with racing connections, with five workers, across kills and restarts."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from jobs import recovery
from jobs.models import Firing, Job, Schedule
from jobs.timetable import schedules
from tests.conftest import StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import wait_until
from tests.support.queue.actors import Background, race
from tests.support.queue.schedules import make_due, make_schedule, ticks_of
from tests.support.queue.workers import QUICK, wait_for_worker

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)


def every_second(**fields: Any) -> str:
    """TESTS_PERIODIC: what worker processes declare."""
    return json.dumps([{"type": "work.record", "cron": "* * * * * *", "name": "beat", **fields}])


def assert_one_job_per_tick(name: str) -> None:
    ticks = ticks_of(name)
    assert [later - earlier for earlier, later in pairwise(ticks)] == [SECOND] * (len(ticks) - 1)
    jobs = Counter(Firing.objects.filter(schedule=name).values_list("job_id", flat=True))
    assert set(jobs.values()) == {1}
    assert set(jobs) == set(Job.objects.filter(submitter=f"periodic:{name}").values_list("pk", flat=True))


@pytest.mark.parametrize("ticks", [1, 20])
def test_twelve_connections_that_look_at_once_fire_each_tick_once(ticks: int) -> None:
    make_schedule(catch_up="all")
    make_due(minutes_ago=ticks - 1)
    fired = race([schedules.fire_due] * 12)
    assert len(ticks_of()) == sum(len(jobs) for jobs in fired) == Job.objects.count()
    assert ticks <= Job.objects.count() <= ticks + 1  # a minute may have passed meanwhile


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite's lock is that of the whole file")
def test_whoever_finds_it_being_fired_leaves_it_to_the_other() -> None:
    make_schedule()
    make_due()
    with transaction.atomic():
        assert len(schedules.fire_due()) == 1
        assert Background(schedules.fire_due).result() == []
    assert schedules.fire_due() == []


def test_a_firing_that_is_rolled_back_leaves_the_tick_to_the_next() -> None:
    make_schedule()
    make_due()
    with transaction.atomic():
        assert len(schedules.fire_due()) == 1
        transaction.set_rollback(True)
    assert (Firing.objects.count(), Job.objects.count()) == (0, 0)
    assert len(schedules.fire_due()) == 1


def test_a_pause_and_a_firing_come_one_after_the_other() -> None:
    make_schedule()
    make_due()
    with transaction.atomic():
        assert len(schedules.fire_due()) == 1
        pausing = Background(partial(schedules.pause, ["nightly"]))
        pausing.wait_until_blocked()
    assert pausing.result() == ["nightly"]
    assert Schedule.objects.get().next_at is None


def test_five_workers_fire_each_tick_once_and_run_its_job(start_manage: StartManage, tmp_path: Path) -> None:
    log = tmp_path / "log"
    env = QUICK | {"TESTS_PERIODIC": every_second(log=str(log), catch_up="all")}
    workers = [start_manage("runworker", "--concurrency", "2", env=env) for _ in range(5)]
    for worker in workers:
        wait_for_worker(worker)
    seen = len(ticks_of("beat"))
    wait_until(lambda: len(ticks_of("beat")) >= seen + 6)
    Schedule.objects.update(paused=True, next_at=None)
    wait_until(lambda: not Job.objects.active().exists())
    assert_one_job_per_tick("beat")
    assert Counter(note["job"] for note in read_notes(log)) == Counter(
        Firing.objects.values_list("job_id", flat=True)
    )


def test_a_worker_that_dies_in_the_middle_of_firing_leaves_the_tick_to_another(
    start_manage: StartManage,
) -> None:
    make_schedule(cron="0 3 1 1 *")
    Schedule.objects.update(next_at=(tick := Schedule.objects.get().next_at - timedelta(days=366)))
    doomed = start_manage("runworker", env=QUICK | {"TESTS_DIE_WHILE_FIRING": "1"})
    assert doomed.wait(timeout=120) == -signal.SIGKILL
    assert (Firing.objects.count(), Job.objects.count()) == (0, 0)
    assert Schedule.objects.get().next_at == tick
    wait_for_worker(start_manage("runworker", env=QUICK))
    wait_until(lambda: Job.objects.completed().exists())
    assert (Firing.objects.count(), Job.objects.count()) == (1, 1)


def test_neither_kill_9_nor_a_restart_of_them_all_loses_or_doubles_a_tick(
    start_manage: StartManage, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    env = QUICK | {"TESTS_PERIODIC": every_second(log=str(log), catch_up="all")}

    def five() -> list[Any]:
        return [start_manage("runworker", "--concurrency", "2", env=env) for _ in range(5)]

    workers = five()
    for worker in workers:
        wait_for_worker(worker)
    for worker in workers:  # one after the other, each while ticks are being fired
        _wait_for_a_tick_after(len(ticks_of("beat")))
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    stopped_after = ticks_of("beat")[-1]
    wait_until(lambda: _seconds_behind() > 2)  # ticks that nobody is there for
    five()
    wait_until(lambda: ticks_of("beat")[-1] > stopped_after + 4 * SECOND)
    Schedule.objects.update(paused=True, next_at=None)
    wait_until(lambda: not Job.objects.active().exists())
    assert_one_job_per_tick("beat")


def _wait_for_a_tick_after(seen: int) -> None:
    wait_until(lambda: len(ticks_of("beat")) > seen)


def _seconds_behind() -> float:
    return -(recovery.glance().next_firing or 0)


def test_workers_whose_code_no_longer_declares_it_do_not_fire_it(
    start_manage: StartManage, tmp_path: Path
) -> None:
    env = QUICK | {"TESTS_PERIODIC": every_second(log=str(tmp_path / "log"))}
    old = start_manage("runworker", env=env)
    wait_until(lambda: ticks_of("beat"))
    old.terminate()
    old.wait()
    wait_for_worker(start_manage("runworker", env=QUICK))
    row: Any = Schedule.objects.get(pk="beat")
    assert (row.removed, row.next_at) == (True, None)
    fired = len(ticks_of("beat"))
    make_schedule("other", cron="* * * * * *")
    wait_until(lambda: len(ticks_of("other")) > 1)  # noticed at once, though it is new
    assert len(ticks_of("beat")) == fired
