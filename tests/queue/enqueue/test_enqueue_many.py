"""Many jobs at once: in one statement, in their order, all or none."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from jobs import LOW, EnqueueRefused, InvalidPayload, UnknownJobType, enqueue, enqueue_many
from jobs.models import Job, Status
from tests.support.queue.actors import claimed_ids, new_worker

pytestmark = pytest.mark.django_db


def test_the_ids_come_back_in_the_order_of_the_payloads() -> None:
    ids = enqueue_many("tests.noop", [{"n": n} for n in range(100)])
    payloads = dict(Job.objects.values_list("id", "payload"))
    assert [payloads[id]["n"] for id in ids] == list(range(100))
    assert ids == sorted(ids)


def test_the_options_hold_for_all_of_them() -> None:
    enqueue_many(
        "tests.noop",
        ({} for _ in range(3)),
        priority=LOW,
        submitter="ada",
        correlation_id="c",
        max_attempts=2,
    )
    values = Job.objects.values_list(
        "priority", "submitter", "correlation_id", "max_attempts", "status"
    ).distinct()
    assert list(values) == [(LOW, "ada", "c", 2, Status.PENDING)]


def test_a_delay_holds_for_all_of_them() -> None:
    enqueue_many("tests.noop", [{}] * 3, delay=timedelta(hours=1))
    assert set(Job.objects.values_list("status", flat=True)) == {Status.WAITING}
    assert claimed_ids(new_worker(), 3) == []


def test_each_has_a_correlation_id_of_its_own_unless_one_is_given() -> None:
    ids = enqueue_many("tests.noop", [{}] * 3)
    assert list(Job.objects.order_by("id").values_list("correlation_id", flat=True)) == ids


def test_no_payloads_make_no_jobs() -> None:
    with CaptureQueriesContext(connection) as queries:
        assert enqueue_many("tests.noop", []) == []
    assert len(queries) == 0


@pytest.mark.parametrize("count", [2, 1_000])
def test_all_of_them_are_written_by_one_statement(count: int) -> None:
    payloads: list[dict[str, Any]] = [{}] * count
    with CaptureQueriesContext(connection) as queries:
        enqueue_many("tests.noop", payloads, delay=60)
    inserts = [query for query in queries.captured_queries if "INSERT INTO jobs_job" in query["sql"]]
    assert len(inserts) == 1
    assert len(queries) < 10
    assert Job.objects.count() == count


@pytest.mark.parametrize("count", [2, 1_000])
def test_what_may_run_at_once_is_not_written_row_by_row_either(count: int) -> None:
    with CaptureQueriesContext(connection) as queries:
        enqueue_many("tests.noop", [{}] * count)
    assert len(queries) < 10
    assert Job.objects.pending().count() == count


def test_every_character_arrives_as_it_was_sent() -> None:
    odd = [
        "\\",
        "\\N",
        "\\.",
        "\t",
        "a\nb",
        "\r\n",
        "\"'",
        "\u2028",
        "\x01",
        "\x7f",
        "ü€😀",
        "\\u0041",
        "%s",
        "",
    ]
    ids = enqueue_many(
        "tests.noop",
        [{text: [text, {"deep": text}]} for text in odd],
        submitter="\\t\t",
        correlation_id="a\nb\\",
    )
    jobs = Job.objects.in_bulk(ids)
    assert [jobs[id].payload for id in ids] == [{text: [text, {"deep": text}]} for text in odd]
    assert {(job.submitter, job.correlation_id) for job in jobs.values()} == {("\\t\t", "a\nb\\")}


def test_rows_like_those_of_a_single_call() -> None:
    """However they are written: the same columns, the same defaults."""
    enqueue_many("tests.noop", [{"n": 1}, {"n": 1}], priority=3, max_attempts=7)
    enqueue("tests.noop", n=1, priority=3, max_attempts=7)
    own = {"id", "correlation_id", "created_at", "run_at"}
    first, second, single = (
        {name: value for name, value in row.items() if name not in own}
        for row in Job.objects.order_by("id").values()
    )
    assert first == second == single
    for job in Job.objects.all():
        assert job.run_at == job.created_at


def test_one_bad_payload_and_none_is_written() -> None:
    with pytest.raises(InvalidPayload):
        enqueue_many("tests.noop", [{"n": 1}, {"n": object()}, {"n": 3}])
    assert not Job.objects.exists()


@pytest.mark.parametrize("key", ["", "k" * 300, 7])
def test_one_bad_key_and_none_is_written(key: Any) -> None:
    keys = {1: "fine", 2: key}
    with pytest.raises(EnqueueRefused) as refusal:
        enqueue_many("tests.noop", [{"n": 1}, {"n": 2}], unique_key=lambda payload: keys[payload["n"]])
    assert refusal.value.code == "bad_unique_key"
    assert not Job.objects.exists()


def test_an_unknown_type_and_none_is_written() -> None:
    with pytest.raises(UnknownJobType):
        enqueue_many("no.such.type", [{}])
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_row_that_the_database_refuses_takes_all_the_others_with_it() -> None:
    with connection.cursor() as cursor:
        create = (
            "CREATE FUNCTION here_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the disk is full'; END $$; "
            "CREATE TRIGGER here_refusal BEFORE INSERT ON jobs_job FOR EACH ROW "
            "WHEN (NEW.payload ->> 'n' = '2') EXECUTE FUNCTION here_refuse()"
            if connection.vendor == "postgresql"
            else "CREATE TRIGGER here_refusal BEFORE INSERT ON jobs_job WHEN json_extract(NEW.payload, '$.n') = 2 "
            "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )
        drop = (
            "DROP TRIGGER here_refusal ON jobs_job; DROP FUNCTION here_refuse()"
            if connection.vendor == "postgresql"
            else "DROP TRIGGER here_refusal"
        )
        cursor.execute(create)
        try:
            with pytest.raises(DatabaseError, match="the disk is full"):
                enqueue_many("tests.noop", [{"n": n} for n in range(4)])
        finally:
            cursor.execute(drop)
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_they_are_rolled_back_together_with_the_callers_transaction() -> None:
    with transaction.atomic():
        enqueue_many("tests.noop", [{}] * 50)
        transaction.set_rollback(True)
    assert not Job.objects.exists()
