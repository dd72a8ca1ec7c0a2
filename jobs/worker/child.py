"""The child process of an isolated job, run as `python -m jobs.worker.child WORKER_PID ORDERS_FD REPORTS_FD`.

It is two processes: the handler's, which may do whatever it likes, and a small guardian, the leader of their process
group. Should the worker vanish, even by kill -9, the guardian kills the whole group: the handler, although it may
hang in C code, and everything that the handler has started. Nothing of Django is loaded before the two part.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1


def main(worker_pid: int, orders_fd: int, reports_fd: int) -> None:
    watched = {signal.SIGCHLD, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    handler = os.fork()
    if handler == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _run(orders_fd, reports_fd)
    os.close(orders_fd)
    os.close(reports_fd)
    _ask_for_signal_when_parent_dies(signal.SIGTERM)
    if os.getppid() != worker_pid:
        _kill_group()
    _guard(handler, watched)


# -- the guardian ----------------------------------------------------------------------------------------------------


def _guard(handler: int, watched: set[signal.Signals]) -> None:
    while signal.sigwait(watched) == signal.SIGCHLD:
        ended, status = os.waitpid(handler, os.WNOHANG)
        if ended:
            _end_as(os.waitstatus_to_exitcode(status))
    _kill_group()


def _end_as(code: int) -> None:
    """The same end as the handler's, for the worker to see."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 1)


def _kill_group() -> None:
    os.killpg(0, signal.SIGKILL)


def _ask_for_signal_when_parent_dies(number: int) -> None:
    """Linux only; elsewhere the end of the orders tells the handler's process."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


# -- the handler's process -------------------------------------------------------------------------------------------


def _run(orders_fd: int, reports_fd: int) -> None:
    import django

    _ask_for_signal_when_parent_dies(signal.SIGKILL)
    orders, reports = os.fdopen(orders_fd), os.fdopen(reports_fd, "w")
    message = json.loads(orders.readline())
    django.setup()

    from jobs import database, tracing
    from jobs.lifecycle.running import ProgressReport
    from jobs.logs import log_context
    from jobs.worker.context import JobContext
    from jobs.worker.handling import interrupt_thread, run_handler
    from jobs.worker.isolation import job_from_json, outcome_to_json, send

    database.never_pool()
    claimed = job_from_json(message)
    _limit_memory(claimed.type)
    write_lock = threading.Lock()
    last_sent = 0.0

    def report(progress: ProgressReport) -> None:
        nonlocal last_sent
        with write_lock:
            if time.monotonic() - last_sent < 0.1 and progress.percent < 100:
                return
            last_sent = time.monotonic()
            send(reports, {"progress": progress.percent, "step": progress.step})

    context = JobContext(claimed, report=report)
    if message["site"] is not None:
        from jobs.worker.site import Site

        context.site = Site.from_json(context, message["site"])

    handler = threading.get_ident()

    def obey() -> None:
        for line in orders:
            message = json.loads(line)
            if "interrupt" in message:
                context.interrupt(message["interrupt"])
                interrupt_thread(handler, message["interrupt"])
            else:
                context.stop(message["stop"])
        _kill_group()  # the worker is gone: nobody waits for this job any more

    threading.Thread(target=obey, daemon=True).start()
    pid = os.getpid()
    with log_context(**message["log"]), tracing.continuing(message["trace"]):
        outcome = run_handler(context)
    if os.getpid() != pid:
        os._exit(0)  # the handler forked, and this is the child
    tracing.flush()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    with write_lock:
        send(reports, outcome_to_json(outcome))
    os._exit(0)


def _limit_memory(type_name: str) -> None:
    from jobs import registry

    limit = registry.get(type_name).memory_limit
    if limit:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]))
