"""--processes N: forks worker processes, restarts one that dies, passes signals on."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from dataclasses import replace
from types import FrameType

from django.db import connections

from jobs.worker.loop import Options, WorkerLoop

log = logging.getLogger("jobs.worker")

_RESTART_PAUSE = 1.0


def supervise(options: Options, processes: int) -> int:
    """Until every child has ended as asked. Returns the exit code."""
    connections.close_all()
    stopping = 0
    children: dict[int, Options] = {}

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        stopping += 1
        for pid in children:
            os.kill(pid, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    for index in range(1, processes + 1):
        own = replace(options, name=f"{options.name}-{index}" if options.name else None)
        children[_fork(own)] = own
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
        if not stopping:
            children[_fork(own)] = own
    return 0


def _fork(options: Options) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        code = WorkerLoop(options).run()
    except Exception:
        log.exception("the worker process could not go on")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
