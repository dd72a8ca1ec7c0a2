"""One trace from the enqueue through real workers, near, far and isolated, to the children; with the real SDK."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from jobs import enqueue, tracing
from jobs.models import Job
from tests.conftest import StartManage
from tests.jobapp.spans import VARIABLE, read_spans
from tests.support.processes import wait_until
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker
from tests.support.remote.remote_site import RemoteSite, is_ready, stop

CORRELATION = "order-7"


def trace_and_span(span: dict[str, Any]) -> tuple[int, str]:
    return int(span["context"]["trace_id"], 16), span["context"]["span_id"]


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.django_db(transaction=True)
def test_near_far_and_isolated_runs_are_one_trace(
    remote_site: RemoteSite, start_manage: StartManage, log: str, gate: Path, tmp_path: Path, processes: str
) -> None:
    gate.touch()
    spans_log = {VARIABLE: str(tmp_path / "spans")}
    remote_site.serve()
    near = start_manage("runworker", "--processes", processes, env={**QUICK, **spans_log})
    wait_for_worker(near, count=int(processes))
    far = remote_site.work(key=remote_site.key(), env=spans_log)
    wait_until(lambda: is_ready(far))
    jobs = [
        enqueue("work.isolated", {"log": log, "gate": str(gate)}, correlation_id=CORRELATION),
        enqueue("remote.record", {"log": log}, correlation_id=CORRELATION),
        enqueue("remote.isolated", {"log": log}, correlation_id=CORRELATION),
    ]
    fails = enqueue("remote.fail", {"log": log, "how": "for good"}, correlation_id="order-8")
    for job in jobs:
        wait_for_status(job, "completed")
    wait_for_status(fails, "failed")
    wait_for_status(Job.objects.get(type="work.record"), "completed")
    assert stop(near) == stop(far) == 0  # what is still in a batch is sent before they end

    spans = {span["name"]: span for span in read_spans(tmp_path / "spans")}
    failed = spans.pop("run remote.fail")
    assert set(spans) == {
        "run work.isolated",
        "enqueue work.record",
        "run work.record",
        "run remote.record",
        "run remote.isolated",
    }
    expected = tracing.trace_of(CORRELATION)
    assert {trace_and_span(span)[0] for span in spans.values()} == {expected.trace_id}
    child, parent = spans["enqueue work.record"], spans["run work.isolated"]
    assert child["pid"] != parent["pid"]
    assert child["parent_id"] == parent["context"]["span_id"]
    assert int(parent["parent_id"], 16) == expected.span_id
    assert trace_and_span(failed)[0] == tracing.trace_of("order-8").trace_id
    assert failed["status"] == {
        "status_code": "ERROR",
        "description": "PermanentFailure: it cannot work",
    }


class Stuck(TracerProvider):
    """Its collector never answers."""

    over = threading.Event()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self.over.wait(60)


@pytest.fixture
def _stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    provider = Stuck()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield
    Stuck.over.set()


@pytest.mark.usefixtures("_stuck")
def test_a_collector_that_does_not_answer_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "FLUSH_SECONDS", 0.05)
    tracing.flush()
    assert not Stuck.over.is_set()
