"""What a badly behaved handler may do to its worker."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.db import connection, transaction

from jobs import JobContext
from jobs.models import Job


class Outrage(BaseException):
    """Not an Exception."""


def raise_base_exception(job: JobContext) -> None:
    raise Outrage("no Exception at all")


def raise_keyboard_interrupt(job: JobContext) -> None:
    raise KeyboardInterrupt


def exit_interpreter(job: JobContext) -> None:
    sys.exit(3)


async def exit_from_coroutine(job: JobContext) -> None:
    sys.exit(4)


def run_out_of_memory(job: JobContext) -> None:
    bytearray(1 << 62)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot be shown")


def raise_unprintable(job: JobContext) -> None:
    raise Unprintable


def raise_nonsense_text(job: JobContext) -> None:
    raise RuntimeError("\0 \ud800 " + "x" * 1_000_000)


def return_nul(job: JobContext) -> str:
    return "a\0b"


def return_surrogate(job: JobContext) -> str:
    return "\ud800"


def return_infinity(job: JobContext) -> float:
    return float("inf")


def return_object(job: JobContext) -> object:
    return object()


def report_nonsense(job: JobContext) -> None:
    job.progress(50, step="\0\ud800" * 200)
    time.sleep(0.7)  # until it was written


def close_connection(job: JobContext) -> None:
    Job.objects.count()
    connection.close()


def leave_atomic_open(job: JobContext) -> None:
    transaction.atomic().__enter__()
    _deface(job)


def leave_autocommit_off(job: JobContext) -> None:
    transaction.set_autocommit(False)
    _deface(job)


def leave_aborted_transaction(job: JobContext) -> None:
    transaction.atomic().__enter__()
    with connection.cursor() as cursor:
        cursor.execute("SELECT nonsense FROM nowhere")


def break_connection(job: JobContext) -> None:
    """The connection is dead and Django does not know it."""
    connection.ensure_connection()
    raw: Any = connection.connection
    if connection.vendor == "postgresql":
        with socket.socket(fileno=os.dup(raw.fileno())) as plug:
            plug.shutdown(socket.SHUT_RDWR)
    else:
        raw.close()


def fork_and_return(job: JobContext) -> None:
    """The child returns from the handler as if it were the worker."""
    if child := os.fork():
        os.waitpid(child, 0)


def fork_and_raise(job: JobContext) -> None:
    """The child leaves through the worker's code with an exception."""
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        raise Outrage("from the forked child")


def fork_and_exit(job: JobContext) -> None:
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        sys.exit(5)


IN_WORKER: dict[str, Callable[[JobContext], Any]] = {
    action.__name__: action
    for action in (
        raise_base_exception,
        raise_keyboard_interrupt,
        exit_interpreter,
        exit_from_coroutine,
        run_out_of_memory,
        raise_unprintable,
        raise_nonsense_text,
        return_nul,
        return_surrogate,
        return_infinity,
        return_object,
        report_nonsense,
        close_connection,
        leave_atomic_open,
        leave_autocommit_off,
        leave_aborted_transaction,
        break_connection,
        fork_and_return,
        fork_and_raise,
        fork_and_exit,
    )
}


def die_at_once(job: JobContext) -> None:
    os._exit(7)


def crash(job: JobContext) -> None:
    import ctypes

    ctypes.string_at(0)


def eat_memory(job: JobContext) -> None:
    hoard = []
    while True:
        hoard.append(bytearray(16 << 20))


def leave_grandchild(job: JobContext) -> None:
    """A process that nobody waits for, and that keeps every pipe of its parent open."""
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)


def close_every_file(job: JobContext) -> None:
    """The pipe to the worker, too."""
    os.closerange(3, 1024)


def print_a_lot(job: JobContext) -> None:
    sys.stdout.write("x" * 200_000 + "\n")
    sys.stdout.flush()


IN_CHILD: dict[str, Callable[[JobContext], Any]] = {
    action.__name__: action
    for action in (
        die_at_once,
        crash,
        eat_memory,
        leave_grandchild,
        close_every_file,
        print_a_lot,
        raise_base_exception,
        exit_interpreter,
        fork_and_return,
        fork_and_raise,
    )
}


def block_every_signal_and_sleep() -> None:
    """In C code, deaf to everything but SIGKILL."""
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})
    time.sleep(600)


def start_grandchild(pid_file: str) -> None:
    process = subprocess.Popen(["sleep", "600"])
    Path(pid_file).write_text(str(process.pid))


def _deface(job: JobContext) -> None:
    """A write that must vanish with the transaction that was never committed."""
    Job.objects.filter(pk=job.id).update(submitter="vandal")
