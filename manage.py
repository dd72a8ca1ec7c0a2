#!/usr/bin/env python
"""Django's command line for this project."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    if sys.argv[1:2] != ["runserver"]:
        # The pool is for requests; whoever waits for one to connect is not told what is wrong.
        os.environ["DATABASE_POOL"] = "0"
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
        from django.db import OperationalError, connections
    except ImportError as error:
        raise SystemExit(
            "Django is not installed for this Python. `make run` sets everything up in .venv; "
            "then use .venv/bin/python manage.py"
        ) from error
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        if "--traceback" in sys.argv:
            raise
        raise SystemExit(f"The settings are not in order. {error}") from None
    except OperationalError as error:
        connected = any(each.connection for each in connections.all(initialized_only=True))
        if connected or "--traceback" in sys.argv:
            raise
        reason = str(error).partition("\n")[0]
        raise SystemExit(f"The database cannot be used: {reason}. DATABASE_URL says where it is.") from None


if __name__ == "__main__":
    main()
