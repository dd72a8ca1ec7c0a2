"""--processes N: forks worker processes, restarts one that dies, passes signals on.

A signal may reach supervisor and workers alike (Ctrl-C in a terminal, systemd). It must count once, so a supervised
worker takes any number of SIGTERM and SIGINT for one, and the supervisor alone says "at once", with AT_ONCE.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from dataclasses import replace
from types import FrameType

from django.db import connections

from jobs import tracing
from jobs.worker.loop import AT_ONCE, WorkerLoop
from jobs.worker.options import Options

log = logging.getLogger("jobs.worker")

_RESTART_PAUSE = 1.0
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def supervise(options: Options, processes: int) -> int:
    """Until every child has ended as asked. Returns the exit code."""
    connections.close_all()
    stopping = 0
    children: dict[int, Options] = {}

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        stopping += 1
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM if stopping == 1 else AT_ONCE)

    def start(own: Options) -> None:
        # No signal in between: it would miss the new child, or be handled there as if it were the supervisor.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
        if not stopping:
            children[_fork(own)] = own
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)

    for number in _STOP_SIGNALS:
        signal.signal(number, pass_on)
    for index in range(1, processes + 1):
        name = f"{options.name}-{index}" if options.name else None
        start(replace(options, name=name, supervised=True))
    while children:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            break
        own = children.pop(pid, options)
        if os.waitstatus_to_exitcode(status) == 0 or stopping:
            continue
        log.error(
            "worker process %d died (status %d); starting another", pid, os.waitstatus_to_exitcode(status)
        )
        time.sleep(_RESTART_PAUSE)
        start(own)
    return 0


def _fork(options: Options) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
        code = WorkerLoop(options).run()
    except Exception:
        log.exception("the worker process could not go on")
    finally:
        tracing.flush()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
