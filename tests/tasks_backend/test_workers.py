"""Django's tasks, run by `manage.py runworker` processes."""

from pathlib import Path
from typing import Any

import pytest

from jobs import cancel
from jobs.models import Job
from jobs.tasks_backend.framework import TaskResultStatus, task_finished
from tests.conftest import RunManage, StartManage
from tests.jobapp import tasks
from tests.jobapp.notes import read_notes
from tests.support.processes import wait_until
from tests.support.queue.workers import QUICK

pytestmark = pytest.mark.django_db(transaction=True)


def wait_for_end(result: Any) -> None:
    def ended() -> bool:
        result.refresh()
        return bool(result.is_finished)

    wait_until(ended)


def test_a_worker_runs_what_has_been_enqueued(run_manage: RunManage, tmp_path: Path) -> None:
    signals = tmp_path / "signals"
    what: list[Any] = [tasks.find_oneself, tasks.look, tasks.fail_later]
    done, (awaited, seen, failed) = tasks.add.enqueue(1, 2), [each.enqueue() for each in what]
    run_manage("runworker", "--until-empty", env=QUICK | {"TASK_SIGNALS_LOG": str(signals)})
    for result in (done, awaited, seen, failed):
        result.refresh()
        assert (result.attempts, result.is_finished) == (1, True)
    assert (done.return_value, seen.return_value["id"]) == (3, seen.id)
    assert awaited.return_value >= 1
    assert [error.exception_class for error in failed.errors] == [tasks.Spoilt]
    assert failed.errors[0].traceback.endswith("Spoilt: after a while\n")
    assert done.worker_ids == [Job.objects.get(pk=done.id).processed_by_worker_id]
    assert sorted(signals.read_text().splitlines()) == sorted(
        f"{line} {end}"
        for name, status in [
            ("add", "SUCCESSFUL"),
            ("find_oneself", "SUCCESSFUL"),
            ("look", "SUCCESSFUL"),
            ("fail_later", "FAILED"),
        ]
        for line, end in [
            (f"started SprocketBackend {name}", "RUNNING"),
            (f"finished SprocketBackend {name}", status),
        ]
    )


def test_a_running_task_is_seen_running(start_manage: StartManage, log: str, gate: Path) -> None:
    result: Any = tasks.hold.enqueue(log, str(gate))
    start_manage("runworker", env=QUICK)
    wait_until(lambda: read_notes(log, "started"))
    result.refresh()
    assert (result.status, result.attempts, result.finished_at) == (TaskResultStatus.RUNNING, 1, None)
    assert result.started_at <= result.last_attempted_at
    gate.touch()
    wait_for_end(result)
    assert result.return_value == "held"


def test_a_worker_may_serve_some_queues_only(run_manage: RunManage, log: str) -> None:
    mail, other = tasks.send_mail.enqueue(log), tasks.add.enqueue(1)
    run_manage("runworker", "--until-empty", "--types=django.task.mail", env=QUICK)
    mail.refresh()
    other.refresh()
    assert (mail.status, other.status) == (TaskResultStatus.SUCCESSFUL, TaskResultStatus.READY)
    assert Path(log).read_text() == "mail\n"
    run_manage("runworker", "--until-empty", "--exclude-types=django.task.mail", env=QUICK)
    other.refresh()
    assert other.return_value == 1


def test_a_task_that_kills_its_worker_has_failed_and_does_not_run_again(
    start_manage: StartManage, tmp_path: Path
) -> None:
    signals = tmp_path / "signals"
    environment = QUICK | {"TASK_SIGNALS_LOG": str(signals)}
    result = tasks.kill_worker.enqueue()
    start_manage("runworker", env=environment).wait(60)
    start_manage("runworker", env=environment)
    wait_for_end(result)
    wait_until(lambda: "finished" in signals.read_text())
    assert signals.read_text().splitlines() == [
        "started SprocketBackend kill_worker RUNNING",
        "finished SprocketBackend kill_worker FAILED",
    ]
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    assert result.errors[0].exception_class_path == "jobs.exceptions.WorkerLost"
    assert issubclass(result.errors[0].exception_class, Exception)
    assert result.errors[0].traceback != ""


def test_a_running_task_that_is_cancelled_stops(start_manage: StartManage, log: str, tmp_path: Path) -> None:
    signals = tmp_path / "signals"
    result = tasks.wait_for_ever.enqueue(log)
    asked = tasks.clean_up.enqueue(log)
    worker = start_manage("runworker", env=QUICK | {"TASK_SIGNALS_LOG": str(signals)})
    wait_until(lambda: len(read_notes(log, "started")) == 2)
    finished: list[str] = []

    def receive(sender: type, task_result: Any, **more: Any) -> None:
        finished.append(task_result.status)

    task_finished.connect(receive)
    try:
        cancel([result.id, asked.id])
    finally:
        task_finished.disconnect(receive)
    assert finished == ["FAILED"] * 2, "whoever cancels it sends the signal"
    wait_until(lambda: read_notes(log, "stopped"))
    assert [note["reason"] for note in wait_until(lambda: read_notes(log, "cleaned"))] == ["cancelled"]
    worker.terminate()
    worker.wait(60)
    assert "finished" not in signals.read_text()
    for end in (result, asked):
        end.refresh()
        assert end.status == TaskResultStatus.FAILED
        assert end.errors[0].exception_class_path == "jobs.exceptions.JobCancelled"
