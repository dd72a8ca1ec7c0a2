"""manage.py runworker: claim jobs and run them."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobs import database, wakeup
from jobs.exceptions import WorkerNameTaken, WorkerRefused
from jobs.management.command import QueueCommand
from jobs.worker.arguments import add_arguments, options_of, positive, show_log, unknown_type
from jobs.worker.loop import WorkerLoop
from jobs.worker.options import Options
from jobs.worker.over_http.arguments import NEEDS_HTTPX
from jobs.worker.over_http.arguments import add_arguments as add_remote_arguments
from jobs.worker.supervisor import supervise


class Command(QueueCommand):
    help = "Claim jobs and run them until told to stop (Ctrl-C or SIGTERM)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = """\
examples:
  manage.py runworker                             all types, 8 jobs at a time
  manage.py runworker --types videos.encode,mail  only these types
  manage.py runworker --processes 4               four worker processes, restarted when one dies
  manage.py runworker --until-empty               work off what is there, then exit (deploy scripts, tests)
  manage.py runworker --server https://example.org/api --key-file key
                                                  over HTTPS, for a site on another machine; no database is used

stopping:
  The first Ctrl-C or SIGTERM stops claiming and lets running jobs finish within DRAIN_TIMEOUT; what is left goes
  back to the queue and loses no attempt. A second signal does that at once.

exit codes: 0 stopped as asked · 1 could not start, or may not go on · 2 wrong arguments
"""
        add_arguments(parser)
        parser.add_argument("--processes", type=positive, default=1, help="worker processes (1)")
        parser.add_argument(
            "--name", help="this worker's name, unique in the fleet (default: the host's name)"
        )
        remote = parser.add_argument_group("a worker without database access")
        remote.add_argument(
            "--server",
            metavar="URL",
            help="where the site has mounted the API, such as https://example.org/api",
        )
        add_remote_arguments(remote)

    def handle(self, *args: Any, **given: Any) -> None:
        if problem := unknown_type(given):
            raise CommandError(problem, returncode=2)
        options = options_of(given)
        show_log(given["verbosity"])
        try:
            code = self._remotely(options, given) if given["server"] else self._here(options, given)
        except WorkerNameTaken as refusal:
            raise CommandError(f"{refusal} Use --name.") from None
        except WorkerRefused as refusal:
            raise CommandError(str(refusal)) from None
        if code:
            raise SystemExit(code)

    def _here(self, options: Options, given: dict[str, Any]) -> int:
        if not options.handled_types():
            raise CommandError(
                "There is no job type to handle: declare one with @job_type in the job_types.py of an installed app.",
                returncode=2,
            )
        for name in ("key", "key_file", "register", "folder", "allow_http"):
            if given[name]:
                raise CommandError(f"--{name.replace('_', '-')} goes with --server.", returncode=2)
        database.never_pool()
        wakeup.demand()
        processes = given["processes"]
        return supervise(options, processes) if processes > 1 else WorkerLoop(options).run()

    def _remotely(self, options: Options, given: dict[str, Any]) -> int:
        if not find_spec("httpx"):
            raise CommandError(NEEDS_HTTPX, returncode=2)
        from jobs.worker.over_http import command

        if given["processes"] > 1:
            raise CommandError(
                "A key belongs to one process: use --concurrency, or a key for each worker.", returncode=2
            )
        if given["name"]:
            raise CommandError(
                "The name of a remote worker goes with its key: leave --name out.", returncode=2
            )
        try:
            options = command.remote_options(options)
            transport = command.connect(options, given)
        except command.WrongArguments as problem:
            raise CommandError(str(problem), returncode=2) from None
        return WorkerLoop(options, transport).run()
