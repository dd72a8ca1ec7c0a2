"""manage.py runworker: claim jobs and run them."""

from __future__ import annotations

import argparse
import logging
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs import registry, wakeup
from jobs.exceptions import WorkerRefused
from jobs.worker.loop import Options, WorkerLoop
from jobs.worker.supervisor import supervise


class Command(BaseCommand):
    help = "Claim jobs and run them until told to stop (Ctrl-C or SIGTERM)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = """\
examples:
  manage.py runworker                             all types, 8 jobs at a time
  manage.py runworker --types videos.encode,mail  only these types
  manage.py runworker --processes 4               four worker processes, restarted when one dies
  manage.py runworker --until-empty               work off what is there, then exit (deploy scripts, tests)

stopping:
  The first Ctrl-C or SIGTERM stops claiming and lets running jobs finish within DRAIN_TIMEOUT; what is left goes
  back to the queue and loses no attempt. A second signal does that at once.

exit codes: 0 stopped as asked · 1 could not start · 2 wrong arguments
"""
        parser.add_argument("--types", type=_names, metavar="A,B", help="handle only these job types")
        parser.add_argument(
            "--exclude-types", type=_names, default=[], metavar="A,B", help="handle all but these"
        )
        parser.add_argument("--concurrency", type=_positive, default=8, help="jobs at a time per process (8)")
        parser.add_argument("--processes", type=_positive, default=1, help="worker processes (1)")
        parser.add_argument(
            "--name", help="this worker's name, unique in the fleet (default: the host's name)"
        )
        parser.add_argument(
            "--capabilities", type=_names, default=[], metavar="gpu,…", help="what this machine has"
        )
        until = parser.add_mutually_exclusive_group()
        until.add_argument("--once", action="store_true", help="run one job, if there is one, and exit")
        until.add_argument("--drain", action="store_true", help="exit when there is nothing left to claim")
        until.add_argument(
            "--until-empty",
            action="store_true",
            help="exit when nothing is pending, due or running, by this worker or any other",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        known = {kind.name for kind in registry.all_types()}
        for name in [*(options["types"] or []), *options["exclude_types"]]:
            if name not in known:
                raise CommandError(
                    f"No job type is named {name!r}. Registered: {', '.join(sorted(known)) or 'none'}.",
                    returncode=2,
                )
        chosen = Options(
            concurrency=options["concurrency"],
            name=options["name"],
            types=options["types"],
            exclude_types=options["exclude_types"],
            capabilities=options["capabilities"],
            once=options["once"],
            drain=options["drain"],
            until_empty=options["until_empty"],
        )
        if not chosen.handled_types():
            raise CommandError(
                "There is no job type to handle: declare one with @job_type in the job_types.py of an installed app.",
                returncode=2,
            )
        _show_log(options["verbosity"])
        try:
            wakeup.demand()
            code = (
                supervise(chosen, options["processes"])
                if options["processes"] > 1
                else WorkerLoop(chosen).run()
            )
        except WorkerRefused as refusal:
            raise CommandError(str(refusal)) from None
        if code:
            raise SystemExit(code)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def _show_log(verbosity: int) -> None:
    """A site that configures no logging still sees what its worker does."""
    log = logging.getLogger("jobs")
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
    if log.level == logging.NOTSET:
        log.setLevel([logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG][verbosity])
