"""Settings for a worker that notes each committed write in the file WRITES_LOG, and whose ffmpeg talks a lot."""

import json
import os
import threading
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from django.db.backends.signals import connection_created

from videos.media import ffmpeg

LOG = Path(os.environ["WRITES_LOG"])
_transactions = count(1)
_lock = threading.Lock()


def _note(**line: object) -> None:
    with _lock, LOG.open("a") as file:
        file.write(json.dumps(line) + "\n")


def _watch(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    connection = context["connection"]
    result = execute(sql, params, many, context)
    if sql.lstrip().upper().startswith(("UPDATE", "INSERT", "DELETE", "WITH")):
        if not connection.in_atomic_block:
            _note(sql=sql, transaction=next(_transactions))
        else:
            marks = [mark for _, mark, _ in connection.run_on_commit if isinstance(mark, _Transaction)]
            if not marks:
                marks = [_Transaction()]
                connection.on_commit(marks[0])
            marks[0].statements.append(sql)
    return result


class _Transaction:
    """What was written since BEGIN; noted when it is committed."""

    def __init__(self) -> None:
        self.number = next(_transactions)
        self.statements: list[str] = []

    def __call__(self) -> None:
        for sql in self.statements:
            _note(sql=sql, transaction=self.number)


def _begin(connection: Any, **kwargs: Any) -> None:
    if _watch not in connection.execute_wrappers:
        connection.execute_wrappers.append(_watch)


connection_created.connect(_begin)

_run = ffmpeg.run


def _run_talkative(arguments: Sequence[str], **options: Any) -> str:
    """Progress fifty times a second: it is the worker that must hold back."""
    return _run(["-stats_period", "0.02", *arguments], **options)


ffmpeg.run = _run_talkative

from tests.settings import *  # noqa: E402, F403
