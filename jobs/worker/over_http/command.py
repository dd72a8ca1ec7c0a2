"""From the command line to a remote worker, for `manage.py runworker --server` and `sprocket-worker` alike."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx

from jobs import registry
from jobs.worker.options import Options
from jobs.worker.over_http import keys
from jobs.worker.over_http.address import WrongAddress, parse_server
from jobs.worker.over_http.connection import Access
from jobs.worker.over_http.folder import default_folder
from jobs.worker.over_http.transport import MOST_PLACES, OverHttp

log = logging.getLogger("jobs.worker")


class WrongArguments(ValueError):
    """Exit code 2; the message says what is wrong."""


def remote_options(options: Options) -> Options:
    """Of the types that this machine knows, those that remote workers may run."""
    known = {kind.name: kind for kind in registry.all_types()}
    for name in options.types or []:
        if not known[name].remote:
            raise WrongArguments(f"Remote workers do not run {name}: its type is not declared with remote=.")
    types = [name for name in options.handled_types() if known[name].remote]
    if not types:
        raise WrongArguments(
            "There is no job type to handle: this machine knows none that is declared with remote=. "
            "Install the apps that declare them."
        )
    if options.concurrency > MOST_PLACES:
        raise WrongArguments(f"A remote worker runs at most {MOST_PLACES} jobs at a time.")
    return replace(options, types=types, exclude_types=())


def connect(options: Options, given: Mapping[str, Any]) -> OverHttp:
    """The transport by these arguments. Raises WrongArguments, or WorkerRefused by the registration."""
    try:
        server = parse_server(given["server"], allow_http=given["allow_http"])
        httpx.URL(server)
        folder = (given["folder"] or default_folder()).expanduser().absolute()
        stored = keys.stored_key(folder, server)
        types = options.handled_types()
        if given["register"]:
            if stored.exists():
                log.info("registered already: using the key in %s", stored)
            else:
                keys.register(server, given["register"], types, into=stored)
                log.info("registered as %s; the key is in %s", given["register"], stored)
            key = keys.find_key(key=None, key_file=stored, stored=stored)
        else:
            key = keys.find_key(key=given["key"], key_file=given["key_file"], stored=stored)
    except (WrongAddress, keys.NoKey) as problem:
        raise WrongArguments(str(problem)) from None
    except RuntimeError:
        raise WrongArguments("This account has no home folder: give --folder.") from None
    except httpx.InvalidURL as problem:
        raise WrongArguments(f"{given['server']!r} is not a URL: {problem}.") from None
    return OverHttp(
        Access(server, key),
        folder=folder,
        cache_bytes=given["cache_size"],
        types=types,
        capabilities=options.capabilities,
        concurrency=options.slots,
    )
