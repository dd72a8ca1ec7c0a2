"""docs/metrics.md, "Traces", as it stands: programs started by `opentelemetry-instrument`, and a real collector."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import tracing
from jobs.models import Job
from tests.conftest import StartManage
from tests.support import ROOT
from tests.support.needs import lacking
from tests.support.processes import wait_until
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker
from tests.support.remote.remote_site import stop
from tests.support.servers import collector as collectors
from tests.support.servers.collector import Collector

pytestmark = pytest.mark.django_db(transaction=True)

INSTRUMENTED = (str(Path(sys.executable).with_name("opentelemetry-instrument")), sys.executable, "manage.py")


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    agent = collectors.program()
    if agent is None:
        lacking("COLLECTOR", collectors.MISSING)
    collector = Collector(agent, tmp_path)
    yield collector
    collector.close()


def environment(collector: Collector) -> dict[str, str]:
    """What the page says to export, but for the address."""
    page = (ROOT / "docs/metrics.md").read_text()
    exported = " ".join(re.findall(r"(?m)^    export (.*)$", page))
    told = dict(word.split("=", 1) for word in shlex.split(exported))
    assert told["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://localhost:4318"
    return told | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}


def enqueue_by_command(start: StartManage, told: dict[str, str], *arguments: str) -> Job:
    command = start("enqueue", *arguments, env=told, program=INSTRUMENTED)
    assert command.wait(timeout=120) == 0, command.read_output()
    return Job.objects.get(pk=command.read_output().split()[-1])


def test_from_the_enqueue_to_the_child_of_an_isolated_run_one_trace_arrives(
    collector: Collector, start_manage: StartManage, log: str, gate: Path
) -> None:
    gate.touch()
    told = environment(collector)
    worker = start_manage("runworker", env={**QUICK, **told}, program=INSTRUMENTED)
    wait_for_worker(worker)
    job = enqueue_by_command(start_manage, told, "work.isolated", f'{{"log": "{log}", "gate": "{gate}"}}')
    fails = enqueue_by_command(start_manage, told, "work.fail", f'{{"log": "{log}"}}')
    wait_for_status(job, "completed")
    wait_for_status(Job.objects.get(type="work.record"), "completed")
    wait_for_status(fails, "failed")
    assert stop(worker) == 0  # what is still in a batch is sent before it ends

    wait_until(lambda: len(collector.spans()) >= 5 + fails.max_attempts)
    spans = {span.name: span for span in collector.spans()}
    assert {span.service for span in spans.values()} == {"site"}
    failed = spans.pop("run work.fail")
    assert failed.status == "STATUS_CODE_ERROR"
    assert failed.message == "RuntimeError: attempt 3 fails"
    assert spans.pop("enqueue work.fail").trace == failed.trace
    assert set(spans) == {
        "enqueue work.isolated",
        "run work.isolated",
        "enqueue work.record",
        "run work.record",
    }
    expected = tracing.trace_of(job.correlation_id)
    assert {span.trace for span in spans.values()} == {f"{expected.trace_id:032x}"}
    assert failed.trace != f"{expected.trace_id:032x}"
    assert spans["enqueue work.isolated"].kind == "SPAN_KIND_PRODUCER"
    assert spans["run work.isolated"].kind == "SPAN_KIND_CONSUMER"
    assert spans["enqueue work.record"].parent == spans["run work.isolated"].id
    assert {spans[name].parent for name in ("enqueue work.isolated", "run work.isolated")} == {
        f"{expected.span_id:016x}"
    }


def test_a_collector_that_hangs_costs_no_job(
    collector: Collector, start_manage: StartManage, log: str
) -> None:
    told = environment(collector)
    worker = start_manage("runworker", env={**QUICK, **told}, program=INSTRUMENTED)
    wait_for_worker(worker)
    collector.pause()
    jobs = [enqueue_by_command(start_manage, {}, "work.record", f'{{"log": "{log}"}}') for _ in range(2)]
    for job in jobs:
        wait_for_status(job, "completed")
    assert stop(worker) == 0
