"""System checks: an invalid setting of the pipeline is refused at start-up."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured
from django.core.files.storage import InvalidStorageError
from django.db import router

from jobs import database
from jobs.checks import TAG
from videos import conf, depot, pipeline


@register(TAG)
def check_settings(**kwargs: Any) -> list[CheckMessage]:
    return [
        Error(problem, hint="See videos/conf.py for every setting and its default.", id="videos.E001")
        for problem in conf.find_problems(getattr(settings, "VIDEOS", {}))
    ]


@register(TAG)
def check_storage(**kwargs: Any) -> list[CheckMessage]:
    """Private videos in a storage that anybody may read would be nobody's."""
    alias = getattr(settings, "VIDEOS", {}).get("STORAGE", depot.LOCAL)
    if alias == depot.LOCAL or conf.find_problems(getattr(settings, "VIDEOS", {})):
        return []
    try:
        kept = depot.current()
        problems = kept.problems() if kept else []
    except (ImportError, InvalidStorageError, ImproperlyConfigured) as error:
        problems = [str(error)]
    return [
        Error(
            f"The storage {alias!r} cannot keep the videos: {problem}",
            hint="See docs/storage.md.",
            id="videos.E004",
        )
        for problem in problems
    ]


@register(TAG)
def check_stages(**kwargs: Any) -> list[CheckMessage]:
    try:
        pipeline.in_order()
    except pipeline.StagesDisagree as problem:
        return [
            Error(str(problem), hint="See @stage in job_types.py of the installed apps.", id="videos.E002")
        ]
    return []


@register(TAG)
def check_home(**kwargs: Any) -> list[CheckMessage]:
    from videos.models import Video

    home = router.db_for_write(Video)
    if home == database.alias():
        return []
    return [
        Error(
            f"Videos live in the database {home!r} and their jobs in {database.alias()!r}; they are written together.",
            hint="Let the router send the apps jobs and videos to the same database.",
            id="videos.E003",
        )
    ]
