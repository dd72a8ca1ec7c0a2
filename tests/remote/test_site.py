"""What a job without a database has of the site: its order, its folder, and a way to hand in files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import JobStopped, LeaseLost, RetryLater
from jobs.worker.context import CANCELLED, DRAINING
from jobs.worker.handling import run_handler
from jobs.worker.over_http import transfers
from jobs.worker.site import FileRefusedByServer
from tests.conftest import Declare
from tests.support.servers.stand_in import OneJob, StandIn


@pytest.fixture
def server() -> Iterator[StandIn]:
    server = StandIn(b"the source")
    yield server
    server.close()


@pytest.fixture
def job(server: StandIn, tmp_path: Path) -> OneJob:
    return server.site(tmp_path)


@pytest.fixture
def file(job: OneJob) -> Path:
    path = job.site.folder / "seg ment.m4s"
    path.write_bytes(b"x" * 1_000_000)
    return path


def test_the_order_is_asked_for_once_and_only_if_somebody_wants_it(server: StandIn, job: OneJob) -> None:
    assert server.asked == []
    assert (job.site.order, job.site.order, job.site.done) == ({"height": 360}, {"height": 360}, False)
    assert server.asked == ["GET order"]


def test_what_is_done_already_is_not_done_again(server: StandIn, job: OneJob, declare: Declare) -> None:
    def never(payload: dict[str, object]) -> bool:
        raise AssertionError("the artifact is looked for where the database is")

    ran: list[str] = []
    declare("remote.copy", lambda job: ran.append("ran"), artifact=never, remote=True)
    job.context.site = job.site
    server.order["done"] = True
    outcome = run_handler(job.context)
    assert outcome is not None
    assert (outcome.failure, ran) == (None, [])


def test_a_file_goes_up_with_its_checksum_and_again_without_harm(
    server: StandIn, job: OneJob, file: Path
) -> None:
    for _ in range(2):
        job.site.send("360p/seg ment.m4s", file)
    assert server.files == {"360p/seg ment.m4s": file.read_bytes()}


@pytest.mark.parametrize(
    "refusal", [(503, "unavailable"), (500, "internal"), (429, "too_many_tries"), (400, "truncated")]
)
def test_what_may_pass_is_tried_again(
    server: StandIn, job: OneJob, file: Path, refusal: tuple[int, str]
) -> None:
    server.refuse = [refusal]
    job.site.send("a", file)
    assert server.files["a"] == file.read_bytes()
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("refusal", "problem"),
    [
        ((409, "lease_lost"), LeaseLost),
        ((404, "not_found"), LeaseLost),
        ((422, "invalid"), FileRefusedByServer),
        ((413, "too_large"), FileRefusedByServer),
        ((507, "disk_full"), RetryLater),
    ],
)
def test_what_cannot_pass_is_told(
    server: StandIn, job: OneJob, file: Path, refusal: tuple[int, str], problem: type[Exception]
) -> None:
    server.refuse = [refusal]
    with pytest.raises(problem):
        job.site.send("a", file)
    assert len(server.asked) == 1


def test_a_long_transfer_keeps_the_job_alive_and_a_drain_lets_it_end(
    server: StandIn, job: OneJob, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfers, "KEEP_ALIVE_SECONDS", 0.05)
    server.pause = 1.0
    job.context.progress(40, step="encoding")
    job.context.stop(DRAINING)
    job.site.send("a", file)
    assert server.files["a"] == file.read_bytes()
    assert len(job.reports) > 2
    assert {(report.percent, report.step) for report in job.reports} == {(40, "encoding")}


def test_a_job_that_must_stop_does_not_wait_for_the_server(server: StandIn, job: OneJob, file: Path) -> None:
    server.pause = 300
    timer = threading.Timer(0.3, lambda: job.context.stop(CANCELLED))
    timer.start()
    with pytest.raises(JobStopped):
        job.site.send("a", file)
    job.site.close()
    assert not file.parent.exists()
