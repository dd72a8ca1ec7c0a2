"""isolate=True: the handler runs in a child process of its own, which can be killed and may die without harm.

The worker talks to the child (child.py) over two pipes, a JSON object a line.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from datetime import timedelta
from typing import IO, Any

from jobs import logs, tracing
from jobs.lifecycle.leases import ClaimedJob, FailureReport, Lease
from jobs.worker.context import CANCELLED, DRAINING, TIMEOUT, JobContext
from jobs.worker.handling import Outcome

log = logging.getLogger("jobs.worker")

_children: set[subprocess.Popen[bytes]] = set()
_POLL = 0.05
_LAST_SECONDS = 1.0
"""How long a cancelled handler whose grace is over, and in which JobCancelled was raised, may take to end."""


# -- the parent ------------------------------------------------------------------------------------------------------


def run_in_child(context: JobContext) -> Outcome | None:
    """Start the child, pass its progress on, kill it when the job must stop. Called in the job's slot thread."""
    orders_out, orders_in = os.pipe()
    reports_out, reports_in = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-m", "jobs.worker.child", str(os.getpid()), str(orders_out), str(reports_in)],
        pass_fds=(orders_out, reports_in),
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    _children.add(child)
    os.close(orders_out)
    os.close(reports_in)
    try:
        with os.fdopen(orders_in, "w") as orders, os.fdopen(reports_out) as reports:
            return _watch(child, context, orders, reports)
    finally:
        _kill(child)
        child.wait()
        _children.discard(child)


def _watch(
    child: subprocess.Popen[bytes], context: JobContext, orders: IO[str], reports: IO[str]
) -> Outcome | None:
    found: list[Outcome] = []

    def read_reports() -> None:
        for line in reports:
            message = json.loads(line)
            if "progress" in message:
                with contextlib.suppress(BaseException):
                    context.progress(message["progress"], step=message["step"])
            else:
                found.append(outcome_from(message, context.lease))

    reader = threading.Thread(target=read_reports, daemon=True)
    reader.start()
    _tell(orders, job_to_json(context))
    told, kill_at = "", float("inf")
    while not found and child.poll() is None and time.monotonic() < kill_at:
        reader.join(_POLL)
        if not reader.is_alive():
            time.sleep(0.01)  # the pipe is closed, so the child is about to end; or it hangs all the same
        reason = context.stop_reason
        if context.interrupted and reason != CANCELLED:
            break
        if context.interrupted and kill_at == float("inf"):
            kill_at = time.monotonic() + _LAST_SECONDS
            _tell(orders, {"interrupt": reason})
        elif reason in (DRAINING, CANCELLED) and reason != told:
            told = reason
            _tell(orders, {"stop": reason})
    _kill(child)  # also what the handler has left behind, which may hold the pipe open
    child.wait()
    reader.join(1)
    if context.stop_reason == TIMEOUT:
        from jobs.worker.executor import timeout_failure

        return Outcome(context.lease, failure=timeout_failure(context.type))
    if context.must_stop:
        return None
    return found[0] if found else Outcome(context.lease, failure=_death_of(child))


def _tell(orders: IO[str], message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the child is dead, which the caller is about to see
        send(orders, message)


def _death_of(child: subprocess.Popen[bytes]) -> FailureReport:
    code = child.returncode
    how = f"was killed by signal {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return FailureReport("ChildDied", f"The child process {how} before it reported a result.")


def _kill(child: subprocess.Popen[bytes]) -> None:
    """The whole process group: whatever the handler started dies with it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def kill_all() -> None:
    for child in list(_children):
        _kill(child)


# -- the wire --------------------------------------------------------------------------------------------------------


def send(pipe: IO[str], message: dict[str, Any]) -> None:
    pipe.write(json.dumps(message) + "\n")
    pipe.flush()


def job_to_json(context: JobContext) -> dict[str, Any]:
    site = context.site
    return {
        "job": asdict(context._claimed),
        "site": None if site is None else site.to_json(),
        "log": logs.current_fields(),
        "trace": tracing.carried(),
    }


def job_from_json(message: dict[str, Any]) -> ClaimedJob:
    job = message["job"]
    return ClaimedJob(**{**job, "lease": Lease(**job["lease"])})


def outcome_to_json(outcome: Outcome | None) -> dict[str, Any]:
    if outcome is None:
        return {"nothing": True}
    failure = outcome.failure
    return {
        "result": outcome.result,
        "released": outcome.released,
        "failure": failure
        and {
            **asdict(failure),
            "retry_in": failure.retry_in.total_seconds() if failure.retry_in is not None else None,
        },
    }


def outcome_from(message: dict[str, Any], lease: Lease) -> Outcome:
    failure = message.get("failure")
    if message.get("nothing"):
        return Outcome(
            lease, failure=FailureReport("ChildStopped", "The child process stopped without a result.")
        )
    if failure:
        wait = failure["retry_in"]
        failure = FailureReport(**{**failure, "retry_in": None if wait is None else timedelta(seconds=wait)})
    return Outcome(lease, result=message["result"], failure=failure, released=message["released"])
