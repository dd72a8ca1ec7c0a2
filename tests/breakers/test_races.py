"""Breakers under many workers at once: never more trial calls than places, and a dead one frees its place."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from jobs import BreakerOpen, breaker, enqueue_many, lifecycle
from jobs.models import Attempt, Breaker, BreakerProbe, Job, Worker
from tests.conftest import Declare, StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import wait_until
from tests.support.queue.actors import Background, claimed_ids, new_worker, race, race_outcomes
from tests.support.queue.breakers import PLAIN, cooldown_over, open_breaker, state_of
from tests.support.queue.workers import QUICK, wait_for_worker

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("probes", [1, 3])
def test_twenty_racing_workers_get_exactly_as_many_trial_jobs_as_there_are_places(
    declare: Declare, settings: Settings, probes: int
) -> None:
    settings.JOBS = {"BREAKER_PROBES": probes}
    declare("here.charge", breaker="payments")
    declare("here.refund", breaker="payments")
    open_breaker()
    cooldown_over()
    enqueue_many("here.charge", [{}] * 10)
    enqueue_many("here.refund", [{}] * 10)
    workers = [new_worker() for _ in range(20)]
    answers = race([partial(claimed_ids, worker, 5) for worker in workers])
    assert sum(len(answer) for answer in answers) == probes
    assert Job.objects.claimed().count() == BreakerProbe.objects.count() == probes


def test_racing_calls_get_exactly_as_many_places_as_there_are(settings: Settings) -> None:
    settings.JOBS = {"BREAKER_PROBES": 2}
    open_breaker()
    cooldown_over()

    calls = [breaker("payments") for _ in range(12)]

    def enter(call: AbstractContextManager[None]) -> str:
        call.__enter__()
        return "through"

    outcomes = race_outcomes([partial(enter, call) for call in calls])
    assert outcomes.count("through") == 2
    assert sum(isinstance(outcome, BreakerOpen) for outcome in outcomes) == 10


def test_a_claim_waits_for_the_one_that_counts_the_trial_calls(declare: Declare) -> None:
    declare("here.charge", breaker="payments")
    open_breaker()
    cooldown_over()
    enqueue_many("here.charge", [{}] * 2)
    first, second = new_worker(), new_worker()
    with transaction.atomic():
        assert len(claimed_ids(first)) == 1
        other = Background(partial(claimed_ids, second))
        other.wait_until_blocked()
    assert other.result() == []


def test_failures_that_race_are_all_counted(declare: Declare, settings: Settings) -> None:
    settings.JOBS = {"BREAKER_FAILURES": 100}
    declare("here.charge", breaker="payments")
    enqueue_many("here.charge", [{}] * 20)
    held = [job.lease for job in lifecycle.claim(new_worker(), 20)]
    race([partial(lifecycle.fail, lease, PLAIN) for lease in held])
    assert Breaker.objects.get().failures == 20


def test_a_success_and_a_failure_of_two_trials_that_race_leave_a_breaker_that_is_one_or_the_other(
    declare: Declare, settings: Settings
) -> None:
    settings.JOBS = {"BREAKER_PROBES": 2}
    declare("here.charge", breaker="payments")
    open_breaker()
    cooldown_over()
    enqueue_many("here.charge", [{}] * 2)
    good, bad = lifecycle.claim(new_worker(), 2)
    ends: list[Callable[[], object]] = [
        partial(lifecycle.complete, good.lease),
        partial(lifecycle.fail, bad.lease, PLAIN),
    ]
    race(ends)
    row = Breaker.objects.get()
    # Closed first: the failure is the first of a new row. Opened first: the success comes too late.
    assert (row.state, row.failures) in (("closed", 1), ("open", 6))
    assert not BreakerProbe.objects.exists()


def test_a_trial_whose_worker_is_killed_frees_its_place(start_manage: StartManage, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    open_breaker()
    cooldown_over()
    enqueue_many("work.guarded", [{"log": str(log), "gate": str(gate)}] * 3, max_attempts=5)
    doomed = start_manage("runworker", "--concurrency", "4", env=QUICK)
    wait_for_worker(doomed)
    (first,) = wait_until(lambda: read_notes(log))
    survivor = start_manage("runworker", "--concurrency", "4", env=QUICK)
    wait_for_worker(survivor)
    os.kill(doomed.pid, signal.SIGKILL)
    second = wait_until(lambda: read_notes(log)[1:])[0]
    assert (second["pid"], first["pid"]) == (survivor.pid, doomed.pid)
    assert BreakerProbe.objects.count() == 1
    assert state_of() == "half-open"
    gate.touch()
    wait_until(lambda: Job.objects.completed().count() == 3)
    assert state_of() == "closed"


@pytest.mark.skipif(
    connection.vendor != "postgresql", reason="on SQLite who writes keeps all others from claiming"
)
def test_a_worker_takes_no_job_in_the_place_of_one_whose_failure_is_not_written(
    start_manage: StartManage, tmp_path: Path
) -> None:
    """It would run dozens that fail alike before the breaker hears of the first."""
    log, up = tmp_path / "log", tmp_path / "up"
    Breaker.objects.create(name="payments")
    enqueue_many("work.needs_service", [{"log": str(log), "up": str(up)}] * 40, max_attempts=1000)
    with transaction.atomic():
        Breaker.objects.select_for_update().get()
        worker = wait_for_worker(start_manage("runworker", "--concurrency", "4", env=QUICK))
        wait_until(lambda: len(read_notes(log)) >= 4)
        for _ in range(3):  # in which it could have gone on
            heard = Worker.objects.get().last_heartbeat
            wait_until(lambda heard=heard: Worker.objects.get(pk=worker.pk).last_heartbeat != heard)  # type: ignore[misc]
        assert len(read_notes(log)) == 4
    up.touch()
    wait_until(lambda: Job.objects.completed().count() == 40)


def test_a_fleet_stops_trying_while_the_service_is_down_and_finishes_when_it_is_back(
    start_manage: StartManage, tmp_path: Path
) -> None:
    log, up = tmp_path / "log", tmp_path / "up"
    quick = QUICK | {"JOBS_BREAKER_FAILURES": "3", "JOBS_BREAKER_COOLDOWN": "500ms"}
    jobs = 40
    enqueue_many("work.needs_service", [{"log": str(log), "up": str(up)}] * jobs, max_attempts=1000)
    for _ in range(3):
        start_manage("runworker", "--concurrency", "2", env=quick)
    wait_until(lambda: Breaker.objects.filter(state__in=["open", "half-open"], failures__gt=5).exists())
    tried = Attempt.objects.count()
    places = 3 * 2
    # Those that ran when it opened have failed uncounted; as many may have been claimed in the same moment.
    assert tried <= Breaker.objects.get().failures + 2 * places
    assert not Job.objects.completed().exists()
    up.touch()
    wait_until(lambda: Job.objects.completed().count() == jobs)
    assert state_of() == "closed"
    assert Worker.objects.filter(stopped_at__isnull=True).count() == 3
