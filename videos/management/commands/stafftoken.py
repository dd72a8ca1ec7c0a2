"""manage.py stafftoken: a token with which a script uploads videos and uses the API as somebody."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from videos import staff_tokens


class Command(BaseCommand):
    help = (
        "Print a token for scripts, to be sent as `Authorization: Bearer …`. It can do what its user may do, and "
        "ends after --days, when the user is made inactive, or with the user's password."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--days", type=int, default=30, help="how long it is valid (30)")

    def handle(self, *args: Any, username: str, days: int, **options: Any) -> None:
        if not 1 <= days <= 3660:
            raise CommandError("--days is between 1 and 3660.", returncode=2)
        users = get_user_model()
        user = users._default_manager.filter(**{users.USERNAME_FIELD: username}).first()
        if user is None or not getattr(user, "is_staff", False) or not user.is_active:
            raise CommandError(f"There is no active member of the staff named {username!r}.", returncode=2)
        self.stdout.write(staff_tokens.issue(user, timedelta(days=days)))
