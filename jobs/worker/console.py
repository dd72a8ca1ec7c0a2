"""sprocket-worker: a remote worker without a Django project and without a database."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from jobs.exceptions import WorkerRefused

APPS_VARIABLE = "SPROCKET_APPS"
"""Apps with further job types; in the environment, since the child processes of isolated jobs need them too."""
LOG_FORMATS = ("line", "json")
LOG_FORMAT_VARIABLE = "LOG_FORMAT"

EPILOG = """\
An administrator of the site adds a worker in the admin (Workers) and issues a key, which is shown once.

examples:
  sprocket-worker --server https://example.org/api --key-file key
  SPROCKET_KEY=… sprocket-worker --server https://example.org/api --concurrency 2 --capabilities gpu
  SPROCKET_ADMIN_SECRET=… sprocket-worker --server https://example.org/api --register shed-2
                                  registers by itself; the key is kept in --folder and used from then on
  sprocket-worker --server https://example.org/api --app mysite.pictures
                                  also the job types of your own app (its job_types.py; it must be importable)

LOG_FORMAT=json writes each log line as a JSON object, with the job, its type, its correlation id and the worker.

The types must be declared with remote= on the site and be installed here, in the same version.

stopping:
  The first Ctrl-C or SIGTERM stops claiming and lets running jobs finish for 30 s (JOBS_DRAIN_TIMEOUT); what is left
  goes back to the queue and loses no attempt. A second signal does that at once. Killed, it loses nothing either: its
  jobs run again, elsewhere, after their lease.

exit codes: 0 stopped as asked · 1 could not start, or may not go on (key revoked, outdated) · 2 wrong arguments
"""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    from jobs.worker.over_http.arguments import NEEDS_HTTPX

    if not find_spec("httpx"):
        _end(2, NEEDS_HTTPX)
    if (chosen := os.environ.get(LOG_FORMAT_VARIABLE, "line")) not in LOG_FORMATS:
        _end(2, f"{LOG_FORMAT_VARIABLE} is {' or '.join(LOG_FORMATS)}, not {chosen!r}.")
    _set_up(_apps_in(arguments))

    from jobs.worker.arguments import options_of, show_log, unknown_type
    from jobs.worker.loop import WorkerLoop
    from jobs.worker.over_http import command

    given = vars(_parser().parse_args(arguments))
    show_log(given["verbosity"])
    if problem := unknown_type(given):
        _end(2, problem)
    try:
        options = command.remote_options(options_of(given))
        transport = command.connect(options, given)
        code = WorkerLoop(options, transport).run()
    except command.WrongArguments as problem:
        _end(2, str(problem))
    except WorkerRefused as refusal:
        _end(1, str(refusal))
    raise SystemExit(code)


def _parser() -> argparse.ArgumentParser:
    from jobs.worker.arguments import add_arguments
    from jobs.worker.over_http.arguments import add_arguments as add_remote_arguments

    parser = _first_parser(add_help=True)
    parser.add_argument(
        "--server",
        metavar="URL",
        required=True,
        help="where the site has mounted the API, such as https://example.org/api",
    )
    add_remote_arguments(parser)
    add_arguments(parser)
    parser.add_argument("-v", "--verbosity", type=int, choices=range(4), default=1, help="0 to 3 (1)")
    return parser


def _first_parser(*, add_help: bool) -> argparse.ArgumentParser:
    """Apps are loaded before the rest of the command line can be judged."""
    parser = argparse.ArgumentParser(
        prog="sprocket-worker",
        description="Run jobs of a site on another machine, with nothing but a URL and a key.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=add_help,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--app",
        action="append",
        default=[],
        metavar="NAME",
        help="an app with further job types; may be repeated",
    )
    return parser


def _apps_in(arguments: Sequence[str] | None) -> list[str]:
    apps: list[str] = _first_parser(add_help=False).parse_known_args(arguments)[0].app
    return apps


def _set_up(apps: list[str]) -> None:
    import django
    from django.core.exceptions import ImproperlyConfigured

    if apps:
        os.environ[APPS_VARIABLE] = ",".join(apps)
        sys.path.insert(0, str(Path.cwd()))  # an app beside which the command is called, as with python -m
    os.environ["DJANGO_SETTINGS_MODULE"] = "jobs.worker.standalone"
    try:
        django.setup()
    except (ImportError, ImproperlyConfigured) as problem:
        if not apps:
            raise
        _end(2, f"The apps {', '.join(apps)} cannot be loaded: {problem}")


def _end(code: int, message: str) -> NoReturn:
    sys.stderr.write(f"sprocket-worker: {message}\n")
    raise SystemExit(code)
