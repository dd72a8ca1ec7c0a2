"""The command line of a remote worker: what `manage.py runworker --server` and `sprocket-worker` share.

Also read where there is no httpx, and by workers beside the database, which have no use for it.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

KEY_VARIABLE = "SPROCKET_KEY"
SECRET_VARIABLE = "SPROCKET_ADMIN_SECRET"
NEEDS_HTTPX = "A remote worker needs httpx: pip install 'sprocket-queue[remote]'."
_SIZE = re.compile(r"(\d{1,12})\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)


def add_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """All but --server, which one of the two commands demands."""
    key = parser.add_mutually_exclusive_group()
    key.add_argument(
        "--key-file", type=Path, metavar="FILE", help=f"a file with the worker's key (or {KEY_VARIABLE})"
    )
    key.add_argument("--key", help="the worker's key itself; others on this machine can read command lines")
    key.add_argument(
        "--register",
        metavar="NAME",
        help=f"register under this name with the site's admin secret, taken from {SECRET_VARIABLE}; "
        "the key is kept in --folder and used from then on",
    )
    parser.add_argument(
        "--folder", type=Path, help="for working files and sources (~/.local/state/sprocket-worker)"
    )
    parser.add_argument(
        "--cache-size",
        type=parse_size,
        default="20G",
        metavar="SIZE",
        help="how much room sources may take that are kept for the next job, such as 500M or 20G (20G)",
    )
    parser.add_argument(
        "--allow-http", action="store_true", help="plain http to another machine, in a network that you trust"
    )


def parse_size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 500M or 20G")
    return int(match[1]) << (10 * " KMGT".index(match[2].upper() or " "))
