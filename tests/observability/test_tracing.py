"""OpenTelemetry: from the enqueue through the run to the children, one trace per correlation id."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from jobs import JobContext, enqueue, enqueue_many
from jobs.lifecycle import ClaimedJob, Lease
from jobs.testing import run_due_jobs
from jobs.tracing import trace_of
from jobs.worker.executor import Executor
from jobs.worker.handling import Outcome
from tests.conftest import Declare
from tests.support import ROOT
from tests.support.processes import wait_until


class Recorder:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """The site has set OpenTelemetry up; its provider is that of this test only."""
    recorder = Recorder()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: recorder.provider)
    return recorder


def identity(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def trace_id(span: ReadableSpan) -> int:
    return identity(span).trace_id


@pytest.mark.django_db
def test_a_job_its_run_and_its_children_are_one_trace(recorder: Recorder, declare: Declare) -> None:
    def parent(job: JobContext) -> None:
        job.add("here.child")

    declare("here.parent", parent)
    declare("here.child")
    job = enqueue("here.parent", correlation_id="request-7")
    run_due_jobs()
    spans = recorder.spans
    assert set(spans) == {"enqueue here.parent", "run here.parent", "enqueue here.child", "run here.child"}
    assert {trace_id(span) for span in spans.values()} == {trace_of("request-7").trace_id}
    run = spans["run here.parent"]
    assert run.kind is SpanKind.CONSUMER
    assert run.attributes is not None
    assert run.attributes["messaging.message.id"] == job.id
    assert run.attributes["messaging.message.conversation_id"] == "request-7"
    assert run.attributes["sprocket.attempt"] == 1
    child = spans["enqueue here.child"]
    assert child.kind is SpanKind.PRODUCER
    assert child.parent is not None
    assert child.parent.span_id == identity(run).span_id


@pytest.mark.django_db
def test_what_is_enqueued_in_another_trace_stays_in_it_and_links_to_the_jobs_own(recorder: Recorder) -> None:
    with recorder.provider.get_tracer("web").start_as_current_span("GET /") as request:
        job = enqueue("tests.noop")
    run_due_jobs()
    spans = recorder.spans
    enqueued = spans["enqueue tests.noop"]
    assert trace_id(enqueued) == request.get_span_context().trace_id
    assert [link.context.trace_id for link in enqueued.links] == [trace_of(job.correlation_id).trace_id]
    assert trace_id(spans["run tests.noop"]) == trace_of(job.correlation_id).trace_id


@pytest.mark.django_db
def test_many_jobs_are_one_span(recorder: Recorder) -> None:
    enqueue_many("tests.noop", [{}] * 30)
    (span,) = recorder.exporter.get_finished_spans()
    assert span.attributes is not None
    assert span.attributes["messaging.batch.message_count"] == 30


def test_a_worker_notes_how_the_run_ended(recorder: Recorder, declare: Declare) -> None:
    def fail(job: JobContext) -> None:
        raise ValueError("no")

    declare("here.fails", fail)
    outcomes: list[Outcome] = []
    executor = Executor(
        1,
        lease_seconds=60,
        on_progress=lambda report: None,
        on_outcome=outcomes.append,
        on_free_slot=lambda: None,
    )
    executor.start([ClaimedJob(Lease("j", 1, "w"), "here.fails", {}, 1, 3, "c", 5, "", None)], claimed_at=0)
    executor.relieve()
    span: Any = wait_until(lambda: recorder.spans.get("run here.fails"))
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ValueError: no")
    assert trace_id(span) == trace_of("c").trace_id
    assert len(outcomes) == 1


def test_the_trace_follows_from_the_correlation_id_alone() -> None:
    assert trace_of("a") == trace_of("a")
    assert trace_of("a").trace_id != trace_of("b").trace_id
    assert trace_of("a").is_valid


def test_without_opentelemetry_everything_works() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None; import django; django.setup();"
        "from jobs import tracing; assert tracing._otel is None;"
        "c = tracing.enqueueing('t', 'c', 1); c.__enter__(); c.__exit__(None, None, None);"
        "s = tracing.running(None); tracing.note_end(s.__enter__(), None); print('fine')"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.returncode) == ("fine", 0), done.stderr
