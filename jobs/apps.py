"""The Django app: discovers job types and registers the system checks."""

from __future__ import annotations

from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from jobs import checks, registry  # noqa: F401
        from jobs.alerts import watching  # noqa: F401
        from jobs.breakers import rules  # noqa: F401
        from jobs.live import hints  # noqa: F401

        registry.discover()
