"""What `manage.py runworker` and `sprocket-worker` have in common on their command lines."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping
from typing import Any

from jobs import registry
from jobs.worker.options import Options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--types", type=names, metavar="A,B", help="handle only these job types")
    parser.add_argument("--exclude-types", type=names, default=[], metavar="A,B", help="handle all but these")
    parser.add_argument("--concurrency", type=positive, default=8, help="jobs at a time per process (8)")
    parser.add_argument(
        "--capabilities", type=names, default=[], metavar="gpu,…", help="what this machine has"
    )
    until = parser.add_mutually_exclusive_group()
    until.add_argument("--once", action="store_true", help="run one job, if there is one, and exit")
    until.add_argument(
        "--drain", action="store_true", help="exit when nothing that is pending or due can be claimed"
    )
    until.add_argument(
        "--until-empty",
        action="store_true",
        help="exit when nothing is pending, due or running, by this worker or any other",
    )


def options_of(given: Mapping[str, Any]) -> Options:
    return Options(
        concurrency=given["concurrency"],
        name=given.get("name"),
        types=given["types"],
        exclude_types=given["exclude_types"],
        capabilities=given["capabilities"],
        once=given["once"],
        drain=given["drain"],
        until_empty=given["until_empty"],
    )


def unknown_type(given: Mapping[str, Any]) -> str | None:
    """What is wrong with the names of types, if anything is."""
    known = {kind.name for kind in registry.all_types()}
    for name in [*(given["types"] or []), *given["exclude_types"]]:
        if name not in known:
            return f"No job type is named {name!r}. Registered: {', '.join(sorted(known)) or 'none'}."
    return None


def names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def show_log(verbosity: int) -> None:
    """A site that configures no logging still sees what its worker does."""
    log = logging.getLogger("jobs")
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
    if log.level == logging.NOTSET:
        log.setLevel([logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG][verbosity])
