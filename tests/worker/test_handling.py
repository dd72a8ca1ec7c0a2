"""How the end of a handler becomes an outcome."""

import asyncio
import threading
from typing import Any

import pytest

from jobs.lifecycle import ClaimedJob, Lease
from jobs.worker.context import CANCELLED, DRAINING, LOST, TIMEOUT, JobContext
from jobs.worker.handling import Outcome, run_handler
from tests.conftest import Declare


def run(type_name: str) -> Outcome | None:
    claimed = ClaimedJob(Lease("job", 1, "worker"), type_name, {}, 1, 3, "", 5, "", None)
    return run_handler(JobContext(claimed, report=lambda report: None))


def stopped_while_it_awaits(reason: str) -> Any:
    async def handler(job: JobContext) -> None:
        threading.Thread(target=job.interrupt, args=(reason,)).start()
        await asyncio.sleep(60)

    return handler


@pytest.mark.parametrize("reason", [LOST, CANCELLED])
def test_a_coroutine_ends_where_it_awaits_when_its_lease_is_gone(declare: Declare, reason: str) -> None:
    declare("tests.awaits", stopped_while_it_awaits(reason))
    assert run("tests.awaits") is None


def test_a_coroutine_ends_where_it_awaits_when_its_time_is_over(declare: Declare) -> None:
    declare("tests.awaits", stopped_while_it_awaits(TIMEOUT))
    outcome = run("tests.awaits")
    assert outcome
    assert outcome.failure
    assert outcome.failure.type.endswith("JobTimeout")


def test_a_coroutine_may_finish_while_the_worker_drains(declare: Declare) -> None:
    async def handler(job: JobContext) -> str:
        job.stop(DRAINING)
        await asyncio.sleep(0)
        return "done"

    declare("tests.awaits", handler)
    outcome = run("tests.awaits")
    assert outcome
    assert (outcome.result, outcome.failure, outcome.released) == ("done", None, False)


def test_a_coroutine_that_cancels_itself_has_failed(declare: Declare) -> None:
    async def handler(job: JobContext) -> None:
        raise asyncio.CancelledError

    declare("tests.awaits", handler)
    outcome = run("tests.awaits")
    assert outcome
    assert outcome.failure
    assert outcome.failure.type.endswith("CancelledError")


@pytest.mark.parametrize("result", [object(), {1, 2}, float("nan")])
def test_a_result_that_cannot_be_stored_fails_for_good(declare: Declare, result: object) -> None:
    declare("tests.returns", lambda job: result)
    outcome = run("tests.returns")
    assert outcome
    assert outcome.failure
    assert outcome.failure.permanent
