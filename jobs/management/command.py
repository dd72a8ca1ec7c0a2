"""What the commands of both apps have in common."""

from __future__ import annotations

import os
import select
import signal
import sys

from django.core.management.base import BaseCommand
from django.db import Error as DatabaseProblem

from jobs import database, schema
from jobs.checks import TAG


class QueueCommand(BaseCommand):
    """Checks what queue and pipeline need before it begins, and no more: all checks of a site import its URLs, forms
    and API, and would double what the start of a worker costs. `manage.py check` and the web server run them."""

    requires_system_checks = [TAG]

    def run_from_argv(self, argv: list[str]) -> None:
        """`jobs status | head -1`: a reader that has seen enough is no error of ours. Neither is a database that is
        away, or that waits for its migrations."""
        database.never_pool()  # whoever waits for a pool to connect is not told why it does not
        try:
            super().run_from_argv(argv)
            sys.stdout.flush()
        except BrokenPipeError:
            if _stdout_is_read():
                raise  # of a connection, not of our output
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is flushed at exit
            sys.exit(128 + signal.SIGPIPE)
        except DatabaseProblem:
            wrong = "" if "--traceback" in argv else _wrong_with_the_database()
            if not wrong:
                raise
            self.stderr.write(self.style.ERROR(wrong))
            sys.exit(1)


def _stdout_is_read() -> bool:
    output = select.poll()
    output.register(sys.stdout.fileno(), 0)  # told without asking: whether the other end is closed
    return not output.poll(0)


def _wrong_with_the_database() -> str:
    """What an operator can mend; empty: then it is our own mistake."""
    try:
        absent = schema.missing()
    except DatabaseProblem as problem:
        told = str(problem).partition("\n")[0]
        return (
            f"The database cannot be used: {told}. DATABASES says where it is (in this project DATABASE_URL)."
        )
    if not absent:
        return ""
    others = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
    return f"The database lacks the migration {absent[0]}{others}: run manage.py migrate."
