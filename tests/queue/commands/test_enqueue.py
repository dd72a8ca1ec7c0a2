"""manage.py enqueue: jobs from a shell, with exit codes that scripts can use."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs import HIGH, LOW
from jobs.models import Job
from tests.conftest import RunManage
from tests.support.queue.commands import help_of, manage

pytestmark = pytest.mark.django_db


def test_it_prints_the_id_of_the_new_job() -> None:
    done = manage("enqueue", "tests.noop")
    job = Job.objects.get()
    assert (done.code, done.out, done.err) == (0, f"{job.id}\n", "")
    assert (job.type, job.payload, job.status) == ("tests.noop", {}, "pending")


def test_the_payload_is_a_json_object() -> None:
    manage("enqueue", "tests.noop", '{"to": 20, "name": "ä", "priority": 1}')
    assert Job.objects.get().payload == {"to": 20, "name": "ä", "priority": 1}


def test_many_jobs_at_once() -> None:
    done = manage("enqueue", "tests.noop", '{"n": 1}', "--count=25")
    ids = list(Job.objects.order_by("pk").values_list("pk", flat=True))
    assert (done.code, len(ids)) == (0, 25)
    assert "25" in done.out.split()
    assert [id for id in ids if id in done.out] == [ids[0], ids[-1]]


@pytest.mark.parametrize(("text", "priority"), [("high", HIGH), ("LOW", LOW), ("7", 7), ("-3", -3)])
def test_a_priority_has_a_name_or_is_a_number(text: str, priority: int) -> None:
    assert manage("enqueue", "tests.noop", f"--priority={text}").code == 0
    assert Job.objects.get().priority == priority


def test_a_delay_and_a_submitter() -> None:
    manage("enqueue", "tests.noop", "--delay=5m", "--submitter=cron")
    job = Job.objects.get()
    assert (job.status, job.submitter) == ("waiting", "cron")
    assert timedelta(minutes=4, seconds=59) < job.run_at - job.created_at < timedelta(minutes=5, seconds=1)


def test_a_taken_unique_key_gives_the_job_that_has_it() -> None:
    first = manage("enqueue", "tests.noop", "--unique-key=k").out.strip()
    second = manage("enqueue", "tests.noop", "--unique-key=k")
    assert (second.code, second.out.split()[0]) == (0, first)
    assert "pending" in second.out
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    ("arguments", "shown", "why"),
    [
        (["{not json"], "JSON", ""),
        (["[1, 2]"], '{"to": 20}', ""),
        (['"text"'], '{"to": 20}', ""),
        (["--priority=urgent"], "--priority", "bad_priority"),
        (["--priority=99999999999"], "--priority", "bad_priority"),
        (["--delay=soon"], "--delay", "not_a_duration"),
        (["--delay=5y"], "--delay", "unknown_unit"),
        (["--delay=99999999999999d"], "--delay", "duration_out_of_range"),
        (["--count=0"], "--count", ""),
        (["--count=2", "--unique-key=k"], "--unique-key", ""),
    ],
)
def test_wrong_arguments_exit_with_2_and_write_nothing(arguments: list[str], shown: str, why: str) -> None:
    refused = manage("enqueue", "tests.noop", *arguments)
    assert (refused.code, refused.why) == (2, why)
    assert shown in refused.err
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["tests.nope"], "unknown_job_type"),
        (["tests.noop", '{"x": NaN}'], "not_json"),
        (["tests.noop", '{"x": "\\u0000"}'], "has_nul"),
        (["tests.noop", "--unique-key="], "bad_unique_key"),
        (["tests.nope", "--count=3"], "unknown_job_type"),
    ],
)
def test_what_the_queue_refuses_exits_with_1_and_writes_nothing(arguments: list[str], why: str) -> None:
    refused = manage("enqueue", *arguments)
    assert (refused.code, refused.why) == (1, why)
    assert refused.err != ""
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_as_a_process_it_exits_with_these_codes_and_without_a_traceback(run_manage: RunManage) -> None:
    refusals = {
        2: ("enqueue", "tests.noop", "{"),
        1: ("enqueue", "tests.nope"),
    }
    for code, arguments in refusals.items():
        refused = run_manage(*arguments, check=False)
        assert (refused.returncode, refused.stdout) == (code, "")
        assert refused.stderr.startswith("CommandError: ")
        assert "Traceback" not in refused.stderr
    assert run_manage("enqueue", "tests.noop").stdout.strip() == Job.objects.get().id


def test_the_help_teaches() -> None:
    told = help_of("enqueue")
    for words in (
        "examples:",
        "manage.py enqueue demo.count '{\"to\": 20}'",
        "--unique-key",
        "exit codes: 0",
    ):
        assert words in told
