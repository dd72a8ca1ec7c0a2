"""System checks: an invalid setting of the pipeline is refused at start-up."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.db import router

from jobs import database
from videos import conf, pipeline


@register()
def check_settings(**kwargs: Any) -> list[CheckMessage]:
    return [
        Error(problem, hint="See videos/conf.py for every setting and its default.", id="videos.E001")
        for problem in conf.find_problems(getattr(settings, "VIDEOS", {}))
    ]


@register()
def check_stages(**kwargs: Any) -> list[CheckMessage]:
    try:
        pipeline.in_order()
    except pipeline.StagesDisagree as problem:
        return [
            Error(str(problem), hint="See @stage in job_types.py of the installed apps.", id="videos.E002")
        ]
    return []


@register()
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
