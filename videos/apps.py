"""The Django app: registers the checks, the rules, and what follows the jobs."""

from __future__ import annotations

from django.apps import AppConfig


class VideosConfig(AppConfig):
    name = "videos"
    verbose_name = "Videos"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from videos import (  # noqa: F401
            alert_subjects,
            checks,
            following,
            invariants,
            live_topics,
            reconciling,
        )
