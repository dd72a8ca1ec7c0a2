"""OpenTelemetry traces, where `opentelemetry-api` is installed (the extra `otel`): a span per enqueue and per run.

The trace follows from the correlation id, which children inherit and log lines carry. So a job, its runs on whatever
worker, its children and theirs are one trace, and nothing has to be stored for it or sent to remote workers. What is
enqueued inside another trace, such as that of a request, has its span there, with a link to the trace of the job.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

_otel: Any
_context: Any
_Propagator: Any
try:
    from opentelemetry import context as _context
    from opentelemetry import trace as _otel
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator as _Propagator
except ImportError:
    _otel = None

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext

    from jobs.lifecycle.leases import ClaimedJob, FailureReport

SYSTEM = "sprocket"
FLUSH_SECONDS = 3.0


def _is_set_up() -> bool:
    """Not only installed: the site has given it somewhere to send spans to."""
    return _otel is not None and not isinstance(_otel.get_tracer_provider(), _otel.ProxyTracerProvider)


def enqueueing(type_name: str, correlation_id: str, count: int) -> AbstractContextManager[object]:
    """Around the writing of so many jobs."""
    return _enqueue_span(type_name, correlation_id, count) if _is_set_up() else nullcontext()


def running(claimed: ClaimedJob) -> AbstractContextManager[Span | None]:
    """Around one attempt; `note_end` says how it ended."""
    return _run_span(claimed) if _is_set_up() else nullcontext()


def note_end(span: Span | None, failure: FailureReport | None) -> None:
    if span is not None and failure is not None:
        span.set_status(_otel.Status(_otel.StatusCode.ERROR, f"{failure.type}: {failure.message}"[:500]))


def carried() -> dict[str, str]:
    """The current span, to be continued in another process."""
    carrier: dict[str, str] = {}
    if _is_set_up():
        _Propagator().inject(carrier)
    return carrier


def continuing(carrier: Mapping[str, str]) -> AbstractContextManager[object]:
    """Spans inside are children of the one that was `carried` here."""
    return _continued(carrier) if _is_set_up() and carrier else nullcontext()


def flush() -> None:
    """Before the process ends without its exit handlers. A collector that does not answer holds nobody up for long."""
    if _is_set_up() and hasattr(provider := _otel.get_tracer_provider(), "force_flush"):
        flushing = threading.Thread(target=provider.force_flush, name="flush-spans", daemon=True)
        flushing.start()
        flushing.join(FLUSH_SECONDS)


def trace_of(correlation_id: str) -> SpanContext:
    """The trace that everything with this correlation id belongs to, under a root that is never written itself."""
    digest = hashlib.sha256(f"{SYSTEM}:{correlation_id}".encode()).digest()
    context: SpanContext = _otel.SpanContext(
        trace_id=int.from_bytes(digest[:16], "big"),
        span_id=int.from_bytes(digest[16:24], "big"),
        is_remote=True,
        trace_flags=_otel.TraceFlags(_otel.TraceFlags.SAMPLED),
    )
    return context


@contextmanager
def _enqueue_span(type_name: str, correlation_id: str, count: int) -> Iterator[None]:
    own = trace_of(correlation_id)
    around = _otel.get_current_span().get_span_context()
    elsewhere = around.is_valid and around.trace_id != own.trace_id
    with _otel.get_tracer(SYSTEM).start_as_current_span(
        f"enqueue {type_name}",
        context=None if around.is_valid else _under(own),
        kind=_otel.SpanKind.PRODUCER,
        links=[_otel.Link(own)] if elsewhere else [],
        attributes={**_attributes(type_name, correlation_id), "messaging.batch.message_count": count},
    ):
        yield


@contextmanager
def _run_span(claimed: ClaimedJob) -> Iterator[Span]:
    with _otel.get_tracer(SYSTEM).start_as_current_span(
        f"run {claimed.type}",
        context=_under(trace_of(claimed.correlation_id)),
        kind=_otel.SpanKind.CONSUMER,
        attributes={
            **_attributes(claimed.type, claimed.correlation_id),
            "messaging.message.id": claimed.lease.job_id,
            "sprocket.attempt": claimed.attempt,
        },
    ) as span:
        yield span


@contextmanager
def _continued(carrier: Mapping[str, str]) -> Iterator[None]:
    token = _context.attach(_Propagator().extract(carrier))
    try:
        yield
    finally:
        _context.detach(token)


def _under(root: SpanContext) -> Any:
    return _otel.set_span_in_context(_otel.NonRecordingSpan(root))


def _attributes(type_name: str, correlation_id: str) -> dict[str, Any]:
    return {
        "messaging.system": SYSTEM,
        "messaging.destination.name": type_name,
        "messaging.message.conversation_id": correlation_id,
    }
