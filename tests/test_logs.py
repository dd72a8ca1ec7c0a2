"""Log lines carry the job, its type, its correlation id and the worker."""

from __future__ import annotations

import logging

import pytest

from jobs import JobContext, enqueue
from jobs.logs import FIELDS, JobLogFilter, log_context
from jobs.testing import run_due_jobs
from tests.conftest import Declare


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
