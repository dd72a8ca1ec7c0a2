"""Django's tasks on this queue: how a run ends, and what is known of it afterwards. Inline, with jobs.testing."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs import cancel, retry
from jobs.models import Job, Status
from jobs.tasks_backend import SprocketBackend
from jobs.tasks_backend.framework import TaskResultStatus, task_finished, task_started
from jobs.testing import HandlerFailed, assert_enqueued, run_due_jobs
from tests.jobapp import tasks

pytestmark = pytest.mark.django_db

Signals = list[tuple[str, type, Any, str]]


@pytest.fixture
def signals() -> Iterator[Signals]:
    """Each signal with its sender and the id and status that its result had at that moment."""
    received: Signals = []

    def receive(sender: type, task_result: Any, signal: Any, **more: Any) -> None:
        name = "started" if signal is task_started else "finished"
        received.append((name, sender, task_result.id, task_result.status))

    task_started.connect(receive)
    task_finished.connect(receive)
    yield received
    task_started.disconnect(receive)
    task_finished.disconnect(receive)


def run(what: Any, *args: Any, **kwargs: Any) -> Any:
    result = what.enqueue(*args, **kwargs)
    run_due_jobs(raise_errors=False)
    result.refresh()
    return result


def test_a_task_that_returns_is_successful(signals: Signals) -> None:
    result = run(tasks.add, 1, 2, three=3)
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 6)
    assert (result.attempts, len(result.worker_ids), result.errors) == (1, 1, [])
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.started_at <= result.last_attempted_at <= result.finished_at
    assert signals == [
        ("started", SprocketBackend, result.id, "RUNNING"),
        ("finished", SprocketBackend, result.id, "SUCCESSFUL"),
    ]


def test_a_coroutine_uses_the_database_as_any_task() -> None:
    assert run(tasks.find_oneself).return_value == 1


@pytest.mark.parametrize(
    ("given", "kept"),
    [(None, None), (0, 0), ("bytes", "text"), ("tuple", [1, [2, 3]]), ({"a": [1.5]}, {"a": [1.5]})],
)
def test_what_a_task_returns_is_kept_as_json(given: Any, kept: Any) -> None:
    result = run(tasks.give, given)
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, kept)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ("object", "builtins.TypeError", "Unsupported type"),
        ("nan", "jobs.exceptions.InvalidPayload", "not JSON"),
    ],
)
def test_what_cannot_be_kept_fails_the_task_and_is_not_tried_again(
    given: str, error: str, text: str, signals: Signals
) -> None:
    result = run(tasks.give.using(backend="stubborn"), given)
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    assert result.errors[0].exception_class_path == error
    assert text in result.errors[0].traceback
    assert [signal[0] for signal in signals] == ["started", "finished"]


@pytest.mark.parametrize(
    ("what", "error", "last_line"),
    [
        (tasks.fail, ValueError, "ValueError: as it was asked to\n"),
        (tasks.fail_later, tasks.Spoilt, "tests.jobapp.tasks.Spoilt: after a while\n"),
        (tasks.leave, SystemExit, "SystemExit: gone\n"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_task_that_raises_has_failed_with_class_and_traceback(
    what: Any, error: type[BaseException], last_line: str, caplog: pytest.LogCaptureFixture, signals: Signals
) -> None:
    result = run(what)
    assert (result.status, result.attempts, result.is_finished) == (TaskResultStatus.FAILED, 1, True)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert [told.exception_class for told in result.errors] == [error]
    assert result.errors[0].traceback.endswith(last_line)
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    assert last_line.strip() in caplog.text, "the framework logs the exception"
    assert [(name, status) for name, _, _, status in signals] == [
        ("started", "RUNNING"),
        ("finished", "FAILED"),
    ]


def test_a_task_runs_as_often_as_it_may_and_is_ready_in_between(signals: Signals) -> None:
    result = run(tasks.fail_twice)
    assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.READY, 1, 1)
    assert (result.finished_at, result.is_finished) == (None, False)
    run_due_jobs(ahead=timedelta(hours=2), raise_errors=False)
    first = result.started_at
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.FAILED, 2, 2)
    assert result.started_at == first <= result.last_attempted_at <= result.finished_at
    assert [name for name, *_ in signals] == ["started", "started", "finished"]


def test_a_task_can_say_that_there_is_no_use_in_trying_again(signals: Signals) -> None:
    result = run(tasks.give_up.using(backend="stubborn"))
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    assert result.errors[0].exception_class_path == "jobs.exceptions.PermanentFailure"
    assert [name for name, *_ in signals] == ["started", "finished"]


def test_a_task_can_put_itself_off_as_often_as_it_may_run(signals: Signals) -> None:
    result = run(tasks.put_off.using(max_attempts=2))  # type: ignore[call-arg]
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 2)
    assert [error.exception_class_path for error in result.errors] == ["jobs.exceptions.RetryLater"] * 2
    assert [name for name, *_ in signals] == ["started", "started", "finished"]


def test_a_task_sees_its_result_its_attempt_and_its_job() -> None:
    result = tasks.look.using(backend="stubborn").enqueue(fail_before=2)
    run_due_jobs(ahead=timedelta(hours=2), raise_errors=False)
    result.refresh()
    assert result.return_value == {
        "id": result.id,
        "status": "RUNNING",
        "attempt": 2,
        "errors": 1,
        "started": True,
        "job": result.id,
    }


def test_what_is_put_off_runs_when_its_time_has_come() -> None:
    result = tasks.add.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1)
    assert run_due_jobs() == []
    assert len(run_due_jobs(ahead=timedelta(hours=2))) == 1
    result.refresh()
    assert result.return_value == 1


def test_the_urgent_run_first() -> None:
    order = {tasks.add.using(priority=p).enqueue(p).id: p for p in (0, -100, 50, 100)}
    assert [order[done.id] for done in run_due_jobs()] == [100, 50, 0, -100]


def test_a_cancelled_task_has_failed() -> None:
    result = tasks.add.enqueue()
    cancel(result.id)
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 0)
    assert result.finished_at is not None
    assert result.errors[0].exception_class_path == "jobs.exceptions.JobCancelled"
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_a_failed_task_that_a_person_retries_is_ready_again() -> None:
    result = run(tasks.fail)
    retry(result.id)
    result.refresh()
    assert (result.status, result.finished_at, len(result.errors)) == (TaskResultStatus.READY, None, 1)
    run_due_jobs(raise_errors=False)
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.FAILED, 2, 2)


def test_a_receiver_that_fails_changes_nothing_about_the_task(caplog: pytest.LogCaptureFixture) -> None:
    def break_down(**more: Any) -> None:
        raise RuntimeError("a receiver that fails")

    task_started.connect(break_down)
    task_finished.connect(break_down)
    try:
        result = run(tasks.add, 1)
    finally:
        task_started.disconnect(break_down)
        task_finished.disconnect(break_down)
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 1)
    assert caplog.text.count("RuntimeError: a receiver that fails") == 2


def test_the_testing_helpers_know_tasks() -> None:
    tasks.fail.enqueue("because")
    assert_enqueued("django.task", task="tests.jobapp.tasks.fail", args=["because"])
    with pytest.raises(HandlerFailed, match="ValueError: because"):
        run_due_jobs()
    assert Job.objects.get().status == Status.FAILED
