"""Errors are stored whatever is in them: shortened so that their end is kept, and never refused by the database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from jobs import enqueue, lifecycle
from jobs.lifecycle import FailureReport
from jobs.lifecycle.finishing import shorten
from jobs.models import Attempt, Job, Status
from tests.support.queue.actors import claim_one, stored

pytestmark = pytest.mark.django_db


def test_a_nul_in_an_error_is_replaced() -> None:
    job = enqueue("tests.noop")
    lifecycle.fail(claim_one().lease, FailureReport("ValueError", "before\0after", "trace\0back"))
    attempt = Attempt.objects.get(job=job)
    assert (attempt.error, attempt.traceback) == ("before\ufffdafter", "trace\ufffdback")
    assert stored(job).last_error == "ValueError: before\ufffdafter"


def test_a_lone_surrogate_in_an_error_is_replaced() -> None:
    """As in the message of a FileNotFoundError whose path is not UTF-8."""
    job = enqueue("tests.noop")
    lifecycle.fail(claim_one().lease, FailureReport("FileNotFoundError", "caf\udce9.txt", "caf\udce9.txt"))
    assert stored(job).last_error.startswith("FileNotFoundError: caf")
    assert Attempt.objects.get(job=job).error.endswith(".txt")


def test_a_long_error_is_shortened_and_its_end_kept(settings: Settings) -> None:
    settings.JOBS = {"ERROR_MAX_CHARS": 200}
    job = enqueue("tests.noop")
    text = "the beginning " + "x" * 10_000 + " the cause"
    lifecycle.fail(claim_one().lease, FailureReport("ValueError", text))
    error = stored(job).last_error
    assert len(error) == 200
    assert error.startswith("ValueError: the beginning")
    assert error.endswith("the cause")
    assert Attempt.objects.get(job=job).error == text


def test_even_an_attempt_does_not_keep_megabytes() -> None:
    job = enqueue("tests.noop")
    huge = "x" * 1_000_000 + " the cause"
    lifecycle.fail(claim_one().lease, FailureReport("E" * 500, huge, huge))
    attempt = Attempt.objects.get(job=job)
    assert len(attempt.error) == len(attempt.traceback) == 100_000
    assert attempt.traceback.endswith("the cause")
    assert len(attempt.error_type) == 200


def test_a_failed_job_always_says_why() -> None:
    job = enqueue("tests.noop")
    assert lifecycle.fail(claim_one().lease, FailureReport.of(ValueError(), permanent=True)) == Status.FAILED
    assert stored(job).last_error == "ValueError: ValueError"


def test_a_reason_for_cancelling_is_stored_whatever_is_in_it() -> None:
    job = enqueue("tests.noop")
    claim_one()
    lifecycle.cancel(job.id, reason="no\0t needed")
    assert Job.objects.get(pk=job.id).status == Status.CANCELLED


@given(text=st.text(max_size=80), limit=st.integers(min_value=4, max_value=100))
def test_shortening_keeps_the_limit_and_both_ends(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit
    assert "\0" not in short
    short.encode()
    if len(text) <= limit:
        assert len(short) == len(text)
    elif limit >= 8:
        assert short[-1] == shorten(text[-1], 1)
