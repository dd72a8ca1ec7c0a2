"""manage.py stafftoken USER"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError, CommandParser

from jobs import staff_tokens
from jobs.conf import parse_duration
from jobs.management.command import QueueCommand


class Command(QueueCommand):
    help = (
        "Print a token with which a script uses the admin API as this member of the staff: "
        "Authorization: Bearer <token>. It becomes void when the user's password changes."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="the user's name")
        parser.add_argument("--lifetime", default="30d", help="such as 12h or 90d (default: 30d)")

    def handle(self, *args: Any, **options: Any) -> None:
        user_model = get_user_model()
        user = user_model._default_manager.filter(**{user_model.USERNAME_FIELD: options["user"]}).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']}.")
        try:
            token = staff_tokens.issue(user, parse_duration(options["lifetime"]))
        except ValueError as problem:
            raise CommandError(str(problem)) from None
        self.stdout.write(token)
