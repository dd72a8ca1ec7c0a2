"""A process beside the test that has Django and the site's database.

Playwright's sync interface keeps an event loop running in the test's own thread, where Django's ORM refuses to work;
and the site's database is not the one that pytest-django makes. So what a test wants to know or to arrange is a
function at the top level of a module, and `Backstage.call` runs it over there.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE = 120


class Backstage:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._pool = ProcessPoolExecutor(
            max_workers=1,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_set_up,
            initargs=(dict(environment),),
        )

    def call(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """What the function returns over there; arguments and answer are plain data, not model instances."""
        return self._pool.submit(_call, partial(function, *arguments, **named)).result(timeout=PATIENCE)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _set_up(environment: dict[str, str]) -> None:
    os.environ.update(environment)
    import django

    django.setup()


def _call(function: Callable[[], R]) -> R:
    """With connections of its own: between two calls, another test may restart the database server."""
    from django.db import connections

    try:
        return function()
    finally:
        connections.close_all()
