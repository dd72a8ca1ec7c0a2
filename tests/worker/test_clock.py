"""The clock is the database's. A worker's own clock never matters."""

import ast
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from jobs import database, enqueue
from jobs.models import Job, Worker
from jobs.processes import start_mark, this_host
from tests.conftest import StartManage
from tests.jobapp.notes import read_notes
from tests.support import ROOT
from tests.support.processes import wait_until
from tests.support.queue.actors import claim_one, expire, new_worker, outcomes_of, status_of
from tests.support.queue.workers import QUICK, wait_for_status, wait_for_worker

HOUR = timedelta(hours=1)


def is_about(moment: datetime | None, expected: datetime) -> bool:
    return moment is not None and abs(moment - expected) < timedelta(minutes=5)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("shift", [HOUR, -HOUR], ids=["an hour ahead", "an hour behind"])
def test_a_worker_whose_clock_is_an_hour_off_does_nothing_differently(
    start_manage: StartManage, log: str, gate: Path, shift: timedelta
) -> None:
    peer = new_worker(host=str(this_host()), pid=os.getpid(), process_start=start_mark(os.getpid()))
    held_by_peer = enqueue("work.record", log=log)
    claim_one(peer)
    running = enqueue("work.hold", log=log, gate=str(gate))
    far = enqueue("work.record", log=log, delay=HOUR / 2)
    near = enqueue("work.record", log=log, delay=0.2)
    process = start_manage(
        "runworker",
        env=QUICK
        | {
            "DJANGO_SETTINGS_MODULE": "tests.jobapp.shifted_clock",
            "SHIFT_SECONDS": str(shift.total_seconds()),
        },
    )
    worker = wait_for_worker(process)
    near = wait_for_status(near, "completed")
    wait_until(lambda: read_notes(log, "started"))
    sweeps_pass(worker)

    now = database.read_clock()
    assert status_of(far) == "waiting"
    assert (status_of(held_by_peer), outcomes_of(held_by_peer.pk)) == ("processing", ["running"])
    assert Worker.objects.get(pk=peer.pk).status == "idle", "not silent"
    for moment in (near.created_at, near.started_at, near.completed_at, near.run_at):
        assert is_about(moment, now)
    assert is_about(Worker.objects.get(pk=worker.pk).last_heartbeat, now)
    assert is_about(Job.objects.get(pk=running.pk).claim_expires_at, now + timedelta(minutes=30))

    expire(held_by_peer.pk)
    wait_for_status(held_by_peer, "completed")
    assert outcomes_of(held_by_peer.pk) == ["lost", "completed"]
    gate.touch()
    assert wait_for_status(running, "completed").attempt_number == 1
    shown = process.read_output()
    assert f"{(now + shift):%Y-%m-%d %H}" in shown or f"{(now + shift - HOUR / 6):%Y-%m-%d %H}" in shown


def sweeps_pass(worker: Worker) -> None:
    """Three heartbeats, so a sweep in between."""
    for _ in range(3):
        seen = Worker.objects.filter(
            pk=worker.pk, last_heartbeat=Worker.objects.get(pk=worker.pk).last_heartbeat
        )
        wait_until(lambda seen=seen: not seen.exists())  # type: ignore[misc]


WALL_CLOCK = {
    ("timezone", "now"),
    ("timezone", "localtime"),
    ("timezone", "localdate"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("date", "today"),
    ("time", "time"),
    ("time", "time_ns"),
    ("time", "localtime"),
    ("time", "gmtime"),
}
MODULES = sorted(path for path in (ROOT / "jobs").rglob("*.py") if path.name != "ulid.py")


def readings_of_the_wall_clock(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    conversions = {  # timezone.localtime(moment) shows a moment to people; without one it reads the clock
        node.func
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "timezone.localtime" and node.args
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = (
                node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            )
            if (owner, node.attr) in WALL_CLOCK and node not in conversions:
                yield f"line {node.lineno}: {owner}.{node.attr}"
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").rpartition(".")[2]
            for name in node.names:
                if (module, name.name) in WALL_CLOCK:
                    yield f"line {node.lineno}: from {module} import {name.name}"


def test_no_module_of_the_queue_reads_the_hosts_clock() -> None:
    """Except ulid.py: identifiers sort by time, and nothing is decided by them."""
    assert len(MODULES) > 30
    found = {str(path): list(readings_of_the_wall_clock(path.read_text())) for path in MODULES}
    assert {path: readings for path, readings in found.items() if readings} == {}


def test_the_search_for_the_hosts_clock_would_find_it() -> None:
    source = "from django.utils.timezone import now\ntime.time()\ndatetime.datetime.now()\ntime.monotonic()\n"
    source += "timezone.localtime()\ntimezone.localtime(moment)\n"
    assert len(list(readings_of_the_wall_clock(source))) == 4
