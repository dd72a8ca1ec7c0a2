"""System checks: an invalid setting of the pipeline is refused at start-up."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from videos import conf


@register()
def check_settings(**kwargs: Any) -> list[CheckMessage]:
    return [
        Error(problem, hint="See videos/conf.py for every setting and its default.", id="videos.E001")
        for problem in conf.find_problems(getattr(settings, "VIDEOS", {}))
    ]
