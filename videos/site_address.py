"""Where visitors find the site: for what commands print, as they have no request to ask."""

from __future__ import annotations

from django.conf import settings

RUNSERVER = "http://127.0.0.1:8000"


def likely_site() -> str:
    """The first origin whose forms the site trusts, named by every site behind HTTPS; else where `runserver` is."""
    named: list[str] = [origin for origin in settings.CSRF_TRUSTED_ORIGINS if "*" not in origin]
    return named[0] if named else RUNSERVER
