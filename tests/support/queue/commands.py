"""`manage.py` commands inside the test's own process and transaction, where a second of start-up would buy nothing."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO

from django.core.management import CommandError, call_command, get_commands, load_command_class


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str
    why: str = ""
    """The code of the error that the command turned into its message."""


def manage(*arguments: str) -> Done:
    """Run a command; its exit code and what it printed."""
    out, err, code, why = StringIO(), StringIO(), 0, ""
    try:
        call_command(*arguments, stdout=out, stderr=err)
    except CommandError as error:
        err.write(str(error))
        code = error.returncode
        why = getattr(error.__context__, "code", "")
    except SystemExit as end:
        code = int(end.code or 0)
    return Done(code, out.getvalue(), err.getvalue(), why)


def help_of(command: str) -> str:
    """What `manage.py COMMAND --help` prints."""
    app = get_commands()[command]
    assert isinstance(app, str)
    return load_command_class(app, command).create_parser("manage.py", command).format_help()
