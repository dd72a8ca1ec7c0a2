"""The payload of a task's job is input as any other: it calls tasks, and nothing else."""

import sys
from typing import Any

import pytest
from django.db import DatabaseError
from pytest_django import Settings

from jobs import enqueue
from jobs.models import Job
from jobs.tasks_backend import queues, results, running
from jobs.tasks_backend.framework import InvalidTask, Task, task_backends
from jobs.testing import run_due_jobs
from tests.conftest import Declare
from tests.jobapp import tasks

pytestmark = pytest.mark.django_db

HONEST: dict[str, Any] = {
    "task": "tests.jobapp.tasks.add",
    "backend": "default",
    "queue": "default",
    "priority": 0,
    "args": [1],
    "kwargs": {},
}


def test_the_honest_payload_runs() -> None:
    enqueue("django.task", HONEST)
    assert [run.result for run in run_due_jobs()] == [1]


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"task": "tests.jobapp.tasks.not_a_task"}, "@task"),
        ({"task": "os.system", "args": ["false"]}, "'os.system'"),
        ({"task": "subprocess.run"}, "'subprocess.run'"),
        ({"task": "antigravity.fly"}, "'antigravity'"),
        ({"task": "tests.jobapp.tasks.Task"}, "'tests.jobapp.tasks.Task'"),
        ({"task": "tests.jobapp.tasks.add.func"}, "'tests.jobapp.tasks.add.func'"),
        ({"task": "tests.jobapp.no_such_module.add"}, "No module named"),
        ({"task": "tests.jobapp.tasks.no_such_task"}, "'tests.jobapp.tasks.no_such_task'"),
        ({"task": "add"}, "'add'"),
        ({"task": ""}, "''"),
        ({"task": "tests..jobapp.tasks.add"}, "'tests..jobapp.tasks.add'"),
        ({"task": "../../etc/passwd"}, "'../../etc/passwd'"),
        ({"task": None}, "task"),
        ({"task": ["tests.jobapp.tasks.add"]}, "task"),
        ({"backend": "nowhere"}, "'nowhere'"),
        ({"backend": 7}, "backend"),
        ({"queue": "unknown"}, "not valid"),
        ({"priority": "high"}, "priority"),
        ({"priority": 101}, "between -100 and 100"),
        ({"args": {"0": 1}}, "args"),
        ({"kwargs": [1]}, "kwargs"),
        ({"run_after": "tomorrow"}, "run_after"),
        ({"run_after": 5}, "run_after"),
        ({"run_after": "2030-01-01T00:00:00"}, "aware"),
        ({"extra": 1}, "'extra'"),
    ],
)
def test_a_payload_that_lies_fails_for_good_and_calls_nothing(changes: dict[str, Any], shown: str) -> None:
    job = enqueue("django.task", HONEST | changes, max_attempts=3)
    (run,) = run_due_jobs(raise_errors=False)
    assert (run.status, run.error.split(":")[0]) == ("failed", "PermanentFailure")
    assert shown in run.error
    assert "antigravity" not in sys.modules
    assert Job.objects.get(pk=job.pk).attempt_number == 1


def test_a_result_whose_function_is_gone_says_so() -> None:
    job = enqueue("django.task", HONEST | {"task": "tests.jobapp.tasks.was_renamed"})
    with pytest.raises(InvalidTask, match="was_renamed"):
        task_backends["default"].get_result(job.pk)


def test_a_backend_of_somebody_else_is_not_spoken_for(settings: Settings, declare: Declare) -> None:
    home = Task.__module__.rpartition(".")[0]
    settings.TASKS = {"default": {"BACKEND": f"{home}.backends.dummy.DummyBackend"}}
    enqueue("django.task", HONEST)
    (run,) = run_due_jobs(raise_errors=False)
    assert run.status == "failed"
    assert "TASKS['default']" in run.error


def test_arguments_that_do_not_fit_are_an_error_of_the_call() -> None:
    result = tasks.fail.enqueue(no_such_argument=1)  # type: ignore[call-arg]
    run_due_jobs(raise_errors=False)
    result.refresh()
    assert [error.exception_class for error in result.errors] == [TypeError]


def test_a_database_that_does_not_answer_costs_a_task_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    result = tasks.add.enqueue(1)

    def out_of_reach(job_id: str) -> None:
        raise DatabaseError("too many connections")

    with monkeypatch.context() as patch:
        patch.setattr(running, "find_job", out_of_reach)
        run_due_jobs(raise_errors=False)
    result.refresh()
    assert (result.status, result.attempts) == ("READY", 0)
    run_due_jobs(ahead=running.DATABASE_PAUSE * 2)
    result.refresh()
    assert result.return_value == 1


@pytest.mark.parametrize("name", ["a" * 101, "two,queues", "two queues", "line\nbreak", "nul\0"])
def test_a_queue_that_no_worker_could_be_told_to_handle_gets_no_type(name: str, declare: Declare) -> None:
    queues.register([name])
    assert queues.type_of(name) == "django.task"


def test_names_of_exceptions_lead_back_to_them() -> None:
    for error in (ValueError, tasks.Spoilt, KeyboardInterrupt):
        path = results.path_of(results.name_of(error))
        assert path == f"{error.__module__}.{error.__qualname__}"
    assert results.path_of("WorkerLost") == "jobs.exceptions.WorkerLost"
