"""The Django app: discovers job types and registers the system checks."""

from __future__ import annotations

from contextlib import suppress

from django.apps import AppConfig
from django.conf import settings
from django.utils.module_loading import import_string


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from jobs import checks, registry, staging, watch  # noqa: F401
        from jobs.alerts import watching  # noqa: F401
        from jobs.breakers import rules as breaker_rules  # noqa: F401
        from jobs.live import channels, hints, worker_topics  # noqa: F401
        from jobs.timetable import rules as periodic_rules  # noqa: F401

        registry.discover()
        load_task_backends()


def load_task_backends() -> None:
    """Those of TASKS that are ours bring job types with them, which a worker must know before it claims."""
    for alias, params in getattr(settings, "TASKS", {}).items():
        with suppress(ImportError):  # the tasks framework itself tells about it
            backend = import_string(params.get("BACKEND", ""))
            if hasattr(backend, "registers_job_types"):
                backend(alias, params)
