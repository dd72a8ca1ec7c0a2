"""Puts a stopwatch around every handler of the pipeline."""

from __future__ import annotations

from dataclasses import fields

from django.apps import AppConfig

from jobs import job_type, registry


class VideoSiteConfig(AppConfig):
    name = "benchmarks.video_site"

    def ready(self) -> None:
        from benchmarks.video_site import stopwatch

        for kind in registry.all_types():
            policy = {f.name: getattr(kind, f.name) for f in fields(kind) if f.init}
            name, handler = policy.pop("name"), policy.pop("handler")
            job_type(name, **policy)(stopwatch.timed(handler))
