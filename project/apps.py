"""The Django app: registers the check of the environment."""

from __future__ import annotations

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    name = "project"

    def ready(self) -> None:
        from project import from_vlog  # noqa: F401
