"""The slots of a worker: what is stopped, and what must not be."""

import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from pytest_django import Settings

from jobs import JobCancelled, JobContext, JobStopped, JobTimeout
from jobs.lifecycle import ClaimedJob, Lease
from jobs.worker.executor import Executor
from jobs.worker.handling import Outcome
from tests.conftest import Declare
from tests.support.processes import wait_until


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Ends the handlers that this test has started."""
    event = threading.Event()
    yield event
    event.set()


class Bench:
    """An executor, with what it reports."""

    def __init__(self, concurrency: int = 1) -> None:
        self.outcomes: list[Outcome] = []
        self.executor = Executor(
            concurrency,
            lease_seconds=60,
            on_progress=lambda report: None,
            on_outcome=self.outcomes.append,
            on_free_slot=lambda: None,
        )

    def outcomes_after_deadlines(self) -> list[Outcome]:
        self.executor.enforce_deadlines()
        return self.outcomes

    def start(self, type_name: str, *, claimed_at: float | None = None) -> Lease:
        lease = Lease(f"job of {type_name}", 1, "worker")
        claimed = ClaimedJob(lease, type_name, {}, 1, 3, "", 5, "", None)
        self.executor.start([claimed], claimed_at=time.monotonic() if claimed_at is None else claimed_at)
        self.executor.relieve()
        return lease


def test_a_job_claimed_while_the_leases_were_being_read_is_not_stopped(
    declare: Declare, release: threading.Event
) -> None:
    """Claim asked, leases read (without the new one), claim answered: the job is alive."""
    declare("tests.slow", lambda job: release.wait(30))
    bench = Bench()
    claim_asked = time.monotonic()
    leases_read = time.monotonic()
    lease = bench.start("tests.slow", claimed_at=claim_asked)
    bench.executor.keep_only(set(), as_of=leases_read)
    assert bench.executor.leases() == [lease]
    bench.executor.keep_only(set(), as_of=time.monotonic())
    assert bench.executor.leases() == [], "by now its lease is gone for certain"


def test_a_handler_that_hangs_for_ever_does_not_take_its_slot_with_it(
    declare: Declare, release: threading.Event
) -> None:
    """The thread hangs where nothing interrupts it; the slot serves the next job in another thread."""
    declare("tests.hang", lambda job: release.wait(30), timeout=timedelta(milliseconds=1))
    declare("tests.next", lambda job: "done")
    bench = Bench(concurrency=1)
    hung = bench.start("tests.hang")
    wait_until(bench.outcomes_after_deadlines)
    assert (bench.outcomes[0].lease, bench.outcomes[0].failure and bench.outcomes[0].failure.type) == (
        hung,
        "JobTimeout",
    )
    bench.start("tests.next")
    wait_until(lambda: bench.executor.relieve() or len(bench.outcomes) == 2)
    assert bench.outcomes[1].result == "done"


@pytest.mark.parametrize(
    ("reason", "raised"), [("cancelled", JobCancelled), ("timeout", JobTimeout), ("lease lost", JobStopped)]
)
def test_what_is_raised_in_a_handler_says_why_it_is_stopped(
    declare: Declare, settings: Settings, reason: str, raised: type[JobStopped]
) -> None:
    settings.JOBS = {"CANCEL_GRACE": "1ms"}
    seen: list[tuple[type[BaseException], str]] = []
    running = threading.Event()

    def handle(job: JobContext) -> None:
        running.set()
        try:
            while True:
                time.sleep(0.001)
        except BaseException as error:
            seen.append((type(error), job.stop_reason))
            raise

    declare("tests.deaf", handle, timeout=timedelta(milliseconds=1) if reason == "timeout" else None)
    bench = Bench()
    lease = bench.start("tests.deaf")
    assert running.wait(30)
    if reason != "timeout":
        cancelled = {lease} if reason == "cancelled" else set()
        bench.executor.keep_only(set(), cancelled=cancelled, as_of=time.monotonic())
    wait_until(lambda: bench.outcomes_after_deadlines() is None or seen)
    assert seen == [(raised, reason)]


def test_a_cancelled_job_keeps_its_slot_while_it_cleans_up_unless_it_starts_over_meanwhile(
    declare: Declare, release: threading.Event, settings: Settings
) -> None:
    settings.JOBS = {"CANCEL_GRACE": "1h"}
    contexts: list[JobContext] = []

    def handle(job: JobContext) -> None:
        contexts.append(job)
        release.wait(30)

    declare("tests.slow", handle)
    bench = Bench()
    lease = bench.start("tests.slow")
    wait_until(lambda: contexts)
    bench.executor.keep_only(set(), cancelled={lease}, as_of=time.monotonic())
    bench.executor.enforce_deadlines()
    assert (bench.executor.leases(), contexts[0].stop_reason) == ([lease], "cancelled")
    contexts[0].progress(50)
    with pytest.raises(JobCancelled):
        contexts[0].raise_if_stopped_now()
    bench.executor.keep_only(set(), as_of=time.monotonic())
    assert (bench.executor.leases(), contexts[0].stop_reason) == ([], "lease lost")
    assert bench.outcomes == []


def test_a_job_stopped_before_its_turn_never_starts(declare: Declare, release: threading.Event) -> None:
    started = []
    declare("tests.slow", lambda job: release.wait(30))
    declare("tests.late", lambda job: started.append(job.id))
    bench = Bench(concurrency=1)
    first = bench.start("tests.slow")
    bench.start("tests.late")
    bench.executor.keep_only({first}, as_of=time.monotonic())
    release.set()
    wait_until(lambda: bench.outcomes)
    bench.start("tests.late")
    wait_until(lambda: len(bench.outcomes) == 2)
    assert started == ["job of tests.late"], "only the second one, which nobody has stopped"
