"""Log lines carry the job, its type, its correlation id and the worker."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from jobs import JobContext, enqueue
from jobs.logs import FIELDS, JobLogFilter, JSONFormatter, log_context
from jobs.testing import run_due_jobs
from tests.conftest import Declare, RunManage, StartManage
from tests.support.processes import ManageProcess, wait_until
from tests.support.queue.workers import QUICK, wait_for_worker
from tests.support.remote.remote_site import RemoteSite


def filtered() -> logging.LogRecord:
    record = logging.LogRecord("any", logging.INFO, __file__, 1, "text", (), None)
    assert JobLogFilter().filter(record)
    return record


def fields_of(record: logging.LogRecord) -> tuple[str, ...]:
    return tuple(getattr(record, name) for name in FIELDS)


def tag_of(record: logging.LogRecord) -> str:
    return str(record.__dict__["job_tag"])


def test_inside_a_job_every_record_has_the_fields() -> None:
    with log_context(job_id="01J", job_type="mail", correlation_id="abc", worker="w1"):
        record = filtered()
    assert fields_of(record) == ("01J", "mail", "abc", "w1")
    assert tag_of(record) == " [job_id=01J job_type=mail correlation_id=abc worker=w1]"


def test_outside_of_a_job_the_fields_are_empty_so_that_a_format_may_name_them() -> None:
    record = filtered()
    assert fields_of(record) == ("", "", "", "")
    assert tag_of(record) == ""
    assert logging.Formatter("%(message)s%(job_tag)s").format(record) == "text"


def test_contexts_nest_and_end() -> None:
    with log_context(worker="w1"):
        with log_context(job_id="01J"):
            assert tag_of(filtered()) == " [job_id=01J worker=w1]"
        assert tag_of(filtered()) == " [worker=w1]"
    assert tag_of(filtered()) == ""


def test_a_context_ends_although_the_job_raises() -> None:
    with pytest.raises(ValueError, match="no"), log_context(job_id="01J"):
        raise ValueError("no")
    assert tag_of(filtered()) == ""


@pytest.mark.django_db
def test_what_a_handler_logs_in_a_host_sites_test_names_its_job(declare: Declare) -> None:
    seen: list[logging.LogRecord] = []
    declare("tests.talk", lambda job: seen.append(filtered()))
    job = enqueue("tests.talk", correlation_id="request-7")
    run_due_jobs()
    assert fields_of(seen[0])[:3] == (job.id, "tests.talk", "request-7")


@pytest.mark.django_db
def test_children_carry_the_correlation_id_of_their_parent(declare: Declare) -> None:
    seen: list[str] = []

    def parent(job: JobContext) -> None:
        job.add("tests.child")

    declare("tests.parent", parent)
    declare("tests.child", lambda job: seen.append(job.correlation_id))
    enqueue("tests.parent", correlation_id="request-7")
    run_due_jobs()
    assert seen == ["request-7"]


# -- as JSON -----------------------------------------------------------------------------------------------------------


def as_json(record: logging.LogRecord) -> Any:
    text = JSONFormatter().format(record)
    assert "\n" not in text
    return json.loads(text)


def record_of(message: str, *args: object, **more: Any) -> logging.LogRecord:
    record = logging.LogRecord("jobs.worker", logging.WARNING, __file__, 1, message, args, None)
    record.__dict__.update(more)
    return record


def test_a_line_of_json_has_the_job_its_type_its_correlation_and_the_worker() -> None:
    with log_context(job_id="01J", job_type="mail", correlation_id="abc", worker="w1"):
        line = as_json(record_of("sent %d", 3))
    assert (line["level"], line["logger"], line["message"]) == ("WARNING", "jobs.worker", "sent 3")
    assert datetime.fromisoformat(line["time"]).tzinfo is not None
    assert tuple(line[name] for name in FIELDS) == ("01J", "mail", "abc", "w1")


def test_outside_of_a_job_it_has_none_of_them() -> None:
    assert set(as_json(record_of("text"))) == {"time", "level", "logger", "message"}


def test_with_the_filter_beside_it_nothing_is_said_twice() -> None:
    record = record_of("text")
    JobLogFilter().filter(record)
    assert set(as_json(record)) == {"time", "level", "logger", "message"}


class Unshowable:
    def __str__(self) -> str:
        raise ValueError("no")


def test_what_somebody_adds_is_in_the_line_whatever_it_is() -> None:
    line = as_json(
        record_of("text", user=7, moment=datetime(2026, 1, 1, tzinfo=UTC), odd=Unshowable(), level="mine")
    )
    assert (line["user"], line["odd"], line["level"]) == (7, "<Unshowable>", "WARNING")
    assert line["moment"].startswith("2026-01-01")


def test_new_lines_and_surrogates_stay_in_one_line() -> None:
    assert as_json(record_of("a\nb\r\u2028\ud800"))["message"] == "a\nb\r\u2028\ud800"


def test_an_exception_is_a_field() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        record = record_of("failed", exc_info=sys.exc_info())
    assert "ValueError: no" in as_json(record)["exception"]


@pytest.mark.django_db(transaction=True)
def test_a_worker_of_this_project_logs_json_on_request(run_manage: RunManage) -> None:
    done = run_manage("runworker", "--once", "--name=w1", env={"LOG_FORMAT": "json"})
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert any(line["logger"].startswith("jobs.") and "w1" in line["message"] for line in lines)


def said_by(worker: ManageProcess, text: str) -> dict[str, Any]:
    """The line with this text, once it is there."""

    def found() -> dict[str, Any] | None:
        lines = [line for line in worker.read_output().splitlines() if text in line]
        return json.loads(lines[0]) if lines else None

    return wait_until(found) or {}


@pytest.mark.django_db(transaction=True)
def test_what_an_isolated_handler_logs_names_its_job(start_manage: StartManage) -> None:
    worker = start_manage("runworker", "--name=w1", env={**QUICK, "LOG_FORMAT": "json"})
    job = enqueue("work.isolated_talk", correlation_id="request-7")
    line = said_by(worker, f"hello from {job.pk}")
    assert tuple(line[name] for name in FIELDS) == (job.pk, "work.isolated_talk", "request-7", "w1")


@pytest.mark.django_db(transaction=True)
def test_the_line_about_a_failure_names_the_job_and_the_worker_that_chose_its_name_itself(
    start_manage: StartManage, log: str
) -> None:
    worker = start_manage("runworker", env={**QUICK, "LOG_FORMAT": "json"})
    name = wait_for_worker(worker).name
    job = enqueue("work.fail", {"log": log}, correlation_id="request-7", max_attempts=1)
    line = said_by(worker, "attempt 1 fails")
    assert tuple(line[field] for field in FIELDS) == (job.pk, "work.fail", "request-7", name)


@pytest.mark.parametrize("type_name", ["remote.talk", "remote.isolated_talk"])
@pytest.mark.parametrize("script", [True, False], ids=["sprocket-worker", "manage.py"])
@pytest.mark.django_db(transaction=True)
def test_a_remote_worker_logs_json_on_request_too(
    remote_site: RemoteSite, type_name: str, script: bool
) -> None:
    remote_site.serve()
    worker = remote_site.work(key=remote_site.key(), script=script, env={"LOG_FORMAT": "json"})
    job = enqueue(type_name, correlation_id="request-7")
    line = said_by(worker, f"hello from {job.pk}")
    assert tuple(line[name] for name in FIELDS) == (job.pk, type_name, "request-7", "far-away")
    assert all(json.loads(line) for line in worker.read_output().splitlines())


def names_the_setting(complaint: str) -> bool:
    """The setting, what it may be, and what it is."""
    return all(word in complaint for word in ("LOG_FORMAT", "line", "json", "'xml'"))


@pytest.mark.django_db(transaction=True)
def test_another_format_is_refused_by_a_remote_worker(remote_site: RemoteSite) -> None:
    worker = remote_site.work(env={"LOG_FORMAT": "xml"})
    assert worker.wait(timeout=120) == 2
    lines = worker.read_output().splitlines()
    assert any(line.startswith("sprocket-worker: ") and names_the_setting(line) for line in lines)


@pytest.mark.parametrize("starts_python", [True])
@pytest.mark.django_db(transaction=True)
def test_another_format_is_refused_at_start_up(run_manage: RunManage) -> None:
    refused = run_manage("check", check=False, env={"LOG_FORMAT": "xml"})
    assert refused.returncode == 1
    assert any(names_the_setting(line) for line in refused.stderr.splitlines())
