"""Django's tasks on this queue: what enqueue gives back, what it refuses, what it writes."""

import pickle
from datetime import datetime, timedelta
from typing import Any

import django
import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.utils import timezone
from pytest_django import Settings

from jobs.models import Job
from jobs.tasks_backend import SprocketBackend
from jobs.tasks_backend.framework import (
    InvalidTask,
    Task,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task,
    task_backends,
    task_enqueued,
)
from tests.conftest import Declare
from tests.jobapp import tasks

pytestmark = pytest.mark.django_db


def test_the_backend_supports_all_that_the_contract_names() -> None:
    backend = task_backends["default"]
    assert type(backend) is SprocketBackend
    flags = {name: getattr(backend, name) for name in dir(type(backend)) if name.startswith("supports_")}
    assert flags == {
        "supports_defer": True,
        "supports_async_task": True,
        "supports_get_result": True,
        "supports_priority": True,
    }


def test_a_new_result_is_ready_and_knows_nothing_of_a_run() -> None:
    result = tasks.add.enqueue(1, two=3)
    assert (result.status, result.is_finished, result.attempts) == (TaskResultStatus.READY, False, 0)
    assert (result.args, result.kwargs, result.backend) == ([1], {"two": 3}, "default")
    assert (result.started_at, result.last_attempted_at, result.finished_at) == (None, None, None)
    assert (result.errors, result.worker_ids, result.task) == ([], [], tasks.add)
    with pytest.raises(ValueError, match="has not finished"):
        _ = result.return_value
    job = Job.objects.get()
    assert (job.pk, job.created_at, job.type) == (result.id, result.enqueued_at, "django.task")


@pytest.mark.parametrize("what", [tasks.add, tasks.find_oneself], ids=lambda what: what.name)
def test_a_result_that_is_fetched_equals_the_one_that_enqueue_gave(what: Any) -> None:
    later = timezone.now() + timedelta(hours=1)
    result = what.using(priority=7, queue_name="mail", run_after=later).enqueue()
    assert what.get_result(result.id) == result
    assert task_backends["default"].get_result(result.id).task.run_after == later
    result.refresh()
    assert what.get_result(result.id) == result


def test_everything_has_its_async_twin() -> None:
    async def main() -> None:
        result = await tasks.give.aenqueue((2, 3))
        assert (result.status, result.args) == (TaskResultStatus.READY, [[2, 3]])
        assert await tasks.give.aget_result(result.id) == result
        await result.arefresh()
        assert result.status == TaskResultStatus.READY
        with pytest.raises(TaskResultDoesNotExist):
            await tasks.add.aget_result("123")

    async_to_sync(main)()


@pytest.mark.parametrize("wrong", ["123", "", "x" * 500, "\0", "01ARZ3NDEKTSV4RRFFQ69G5FAV", 7, None])
def test_an_id_that_is_none_has_no_result(wrong: Any) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(wrong)


def test_the_result_of_another_task_backend_or_job_is_not_given() -> None:
    result = tasks.add.using(backend="stubborn").enqueue()
    assert task_backends["stubborn"].get_result(result.id) == result
    other = Job.objects.create(type="tests.noop", payload={"backend": "default"})
    for id in (result.id, other.pk):
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["default"].get_result(id)
    with pytest.raises(Exception, match="does not match"):
        tasks.fail.get_result(tasks.add.enqueue().id)


def test_enqueue_joins_the_callers_transaction() -> None:
    with transaction.atomic():
        result = tasks.add.enqueue(1)
        assert Job.objects.filter(pk=result.id).exists()
        transaction.set_rollback(True)
    assert not Job.objects.exists()


def test_priorities_keep_their_order_and_zero_is_normal() -> None:
    for priority in (-100, 0, 100, 5, -5, 99):
        tasks.add.using(priority=priority).enqueue(priority)
    found = Job.objects.in_claim_order().values_list("payload__args__0", "priority")
    assert list(found) == [(100, -95), (99, -94), (5, 0), (0, 5), (-5, 10), (-100, 105)]


def test_a_task_may_be_put_off() -> None:
    later = timezone.now() + timedelta(hours=2)
    tasks.add.using(run_after=later).enqueue()
    tasks.add.using(run_after=timezone.now() - timedelta(days=1)).enqueue()
    assert list(Job.objects.order_by("pk").values_list("status", flat=True)) == ["waiting", "pending"]
    assert Job.objects.order_by("pk")[0].run_at == later


def test_attempts_are_the_tasks_own_or_the_backends_or_one() -> None:
    tasks.add.enqueue()
    tasks.add.using(backend="stubborn").enqueue()
    tasks.fail_twice.enqueue()
    tasks.fail_twice.using(max_attempts=7, priority=1).enqueue()
    assert list(Job.objects.order_by("pk").values_list("max_attempts", flat=True)) == [1, 3, 2, 7]


def test_a_queue_that_is_listed_is_a_job_type_of_its_own() -> None:
    """So workers choose among queues with --types, and people pause or limit one."""
    tasks.add.enqueue()
    tasks.add.using(queue_name="mail").enqueue()
    tasks.add.using(queue_name="anything", backend="stubborn").enqueue()
    types = list(Job.objects.order_by("pk").values_list("type", flat=True))
    assert types == ["django.task", "django.task.mail", "django.task"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"queue_name": "unknown"}, "'unknown' is not valid"),
        ({"priority": 101}, "between -100 and 100"),
        ({"priority": 3.1}, "between -100 and 100"),
        ({"run_after": datetime(2030, 1, 1)}, "aware"),  # noqa: DTZ001
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"max_attempts": "3"}, "max_attempts"),
    ],
)
def test_what_cannot_be_is_refused_at_once(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidTask, match=reason):
        tasks.add.using(**changes)
    assert not Job.objects.exists()


def test_a_task_is_validated_again_when_it_is_enqueued(settings: Settings, declare: Declare) -> None:
    mail = tasks.add.using(queue_name="mail")
    settings.TASKS = {"default": {"BACKEND": "jobs.tasks_backend.SprocketBackend"}}
    with pytest.raises(InvalidTask, match="'mail' is not valid"):
        mail.enqueue()


def test_only_functions_of_a_module_are_tasks() -> None:
    for wrong in (any, lambda: None):
        with pytest.raises(InvalidTask, match="module level"):
            task(wrong)
    with pytest.raises(InvalidTask, match="context"):
        task(takes_context=True)(tasks.add.func)


@pytest.mark.parametrize(
    ("argument", "error"), [(object(), TypeError), (datetime.now, TypeError), (b"\xff", ValueError)]
)
def test_arguments_that_are_not_json_are_refused(argument: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="Unsupported"):
        tasks.add.enqueue(argument)
    assert not Job.objects.exists()


@pytest.mark.skipif(django.VERSION < (6, 1), reason="neither the package django-tasks nor Django 6.0 can")
def test_a_task_and_its_result_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(tasks.fail_twice.using(priority=3))).priority == 3
    result = tasks.add.enqueue(1)
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_task_of_another_backend_can_be_sent_here(settings: Settings, declare: Declare) -> None:
    home = Task.__module__.rpartition(".")[0]
    settings.TASKS = {**settings.TASKS, "elsewhere": {"BACKEND": f"{home}.backends.dummy.DummyBackend"}}
    plain = task(backend="elsewhere")(tasks.not_a_task)
    result = plain.using(backend="default").enqueue()
    assert Job.objects.get().payload["task"] == "tests.jobapp.tasks.not_a_task"
    assert result.backend == "default"


def test_the_signal_names_the_class_of_the_backend(caplog: pytest.LogCaptureFixture) -> None:
    received = []

    def receive(sender: type, task_result: Any, **more: Any) -> None:
        received.append((sender, task_result))
        raise RuntimeError("a receiver that fails")

    task_enqueued.connect(receive)
    try:
        result = tasks.add.enqueue()
    finally:
        task_enqueued.disconnect(receive)
    assert received == [(SprocketBackend, result)]
    assert Job.objects.get().pk == result.id
    assert "a receiver that fails" in caplog.text
