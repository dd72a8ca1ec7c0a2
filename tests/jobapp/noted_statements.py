"""Settings for a web process that notes each statement, and the thread that sends it, in the file STATEMENTS_LOG."""

import json
import os
import threading
from collections.abc import Callable
from typing import Any

from django.db.backends.signals import connection_created

_log = os.open(os.environ["STATEMENTS_LOG"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)


def _note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    line = {"thread": threading.current_thread().name, "sql": sql}
    os.write(_log, (json.dumps(line) + "\n").encode())
    return execute(sql, params, many, context)


def _begin(connection: Any, **kwargs: Any) -> None:
    if _note not in connection.execute_wrappers:
        connection.execute_wrappers.append(_note)


connection_created.connect(_begin)

from tests.settings import *  # noqa: E402, F403
