"""manage.py runworker: its options, its exit codes, its help."""

import os
import signal
from datetime import timedelta

import pytest
from django.db import connection

from jobs import enqueue
from jobs.database import now_minus
from jobs.lifecycle import complete
from jobs.models import Job, Worker
from jobs.processes import start_mark, this_host
from tests.conftest import RunManage, StartManage
from tests.jobapp.notes import read_notes
from tests.support.processes import wait_until
from tests.support.queue.actors import claim_one, new_worker, status_of
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def starts_python() -> bool:
    """How it starts does not depend on the database."""
    return connection.vendor == "postgresql"


def completed() -> int:
    return int(Job.objects.completed().count())


def test_once_runs_one_job_or_none_and_exits(run_manage: RunManage, log: str) -> None:
    run_manage("runworker", "--once")
    for _ in range(2):
        enqueue("work.record", log=log)
    run_manage("runworker", "--once")
    assert completed() == len(read_notes(log)) == 1
    Job.objects.unclaimed().delete()
    come_due([enqueue("work.record", log=log, delay=3600).pk])
    run_manage("runworker", "--once")
    assert completed() == len(read_notes(log)) == 2


def come_due(job_ids: list[str]) -> None:
    """Their delay is over, and no worker has noticed yet."""
    Job.objects.filter(pk__in=job_ids).update(run_at=now_minus(timedelta(seconds=1)))


def test_drain_runs_what_is_pending_or_due_and_exits(run_manage: RunManage, log: str) -> None:
    ready = [enqueue("work.record", log=log) for _ in range(2)]
    ready += [enqueue("work.record", log=log, delay=3600) for _ in range(3)]
    come_due([job.pk for job in ready[2:]])
    later = enqueue("work.record", log=log, delay=3600)
    run_manage("runworker", "--drain", "--concurrency=2")
    assert {status_of(job) for job in ready} == {"completed"}
    assert status_of(later) == "waiting"
    assert Worker.objects.get().concurrency == 2


def test_until_empty_also_waits_for_what_others_run(start_manage: StartManage, log: str) -> None:
    me = new_worker(host=str(this_host()), pid=os.getpid(), process_start=start_mark(os.getpid()))
    elsewhere = enqueue("work.record", log=log)
    claimed = claim_one(me)
    process = start_manage("runworker", "--until-empty", env=QUICK)
    wait_for_status(enqueue("work.record", log=log), "completed")
    wait_until(lambda: Worker.objects.filter(pid=process.pid, status="idle"))
    assert process.poll() is None, f"{elsewhere} still runs"
    complete(claimed.lease)
    assert process.wait(timeout=120) == 0
    assert completed() == 2


def test_types_excluded_types_and_capabilities_decide_what_a_worker_takes(
    run_manage: RunManage, log: str
) -> None:
    record, noop, gpu = (
        enqueue("work.record", log=log),
        enqueue("tests.noop"),
        enqueue("work.needs_gpu", log=log),
    )
    run_manage("runworker", "--drain", "--types=work.record,work.needs_gpu")
    assert [status_of(job) for job in (record, noop, gpu)] == ["completed", "pending", "pending"]
    run_manage("runworker", "--drain", "--exclude-types=tests.noop", "--capabilities=gpu")
    assert [status_of(job) for job in (noop, gpu)] == ["pending", "completed"]
    run_manage("runworker", "--drain", "--processes=2")
    assert status_of(noop) == "completed"


def test_a_killed_worker_process_is_started_again(start_manage: StartManage, log: str) -> None:
    supervisor = start_manage("runworker", "--processes=2", "--name=crew", env=QUICK)
    wait_for_worker(supervisor, count=2)
    victim = Worker.objects.get(name="crew-1")
    assert victim.pid not in (None, supervisor.pid)
    os.kill(victim.pid or 0, signal.SIGKILL)
    wait_until(
        lambda: Worker.objects.exclude(pid=victim.pid).filter(pk=victim.pk, last_heartbeat__isnull=False)
    )
    wait_for_status(enqueue("work.record", log=log), "completed")
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(timeout=120) == 0
    assert Worker.objects.filter(stopped_at__isnull=True).count() == 0


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--types=tests.noop,tests.nope"], "'tests.nope'"),
        (["--exclude-types=tests.nope"], "'tests.nope'"),
        (["--types=tests.noop", "--exclude-types=tests.noop"], "@job_type"),
        (["--concurrency=0"], "--concurrency: '0'"),
        (["--processes=many"], "--processes: 'many'"),
        (["--once", "--drain"], "argument --drain"),
    ],
)
def test_wrong_arguments_exit_with_2_and_say_why(
    run_manage: RunManage, arguments: list[str], shown: str
) -> None:
    refused = run_manage("runworker", *arguments, check=False)
    assert refused.returncode == 2
    assert shown in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not Worker.objects.exists()


def test_a_wrong_setting_keeps_a_worker_from_starting(run_manage: RunManage) -> None:
    refused = run_manage("runworker", "--drain", check=False, env={"JOBS_TICK_INTERVAL": "soon"})
    assert refused.returncode != 0
    assert "TICK_INTERVAL" in refused.stderr
    assert not Worker.objects.exists()


def test_the_help_teaches(run_manage: RunManage) -> None:
    told = run_manage("runworker", "--help").stdout
    for word in (
        "examples:",
        "manage.py runworker --processes 4",
        "--until-empty",
        "stopping:",
        "exit codes:",
    ):
        assert word in told
