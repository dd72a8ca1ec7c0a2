"""Django settings of `sprocket-worker`: job types, and no database. What the site's settings say stays on the site."""

from __future__ import annotations

import os
import secrets
from importlib.util import find_spec

from jobs.worker.console import APPS_VARIABLE, LOG_FORMAT_VARIABLE
from jobs.worker.over_http.folder import default_folder

_NEEDED_BY_VIDEOS = ("av", "imageio_ffmpeg")


def _from_environment(prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in os.environ.items() if name.startswith(prefix)}


SECRET_KEY = secrets.token_urlsafe(32)
"""Nothing is signed here; some of Django asks for one."""
USE_TZ = True
TIME_ZONE = "UTC"
DATABASES: dict[str, dict[str, str]] = {}
INSTALLED_APPS = [
    "jobs",
    *(["videos"] if all(find_spec(module) for module in _NEEDED_BY_VIDEOS) else []),
    *filter(None, os.environ.get(APPS_VARIABLE, "").split(",")),
]
MEDIA_ROOT = str(default_folder())
"""Nothing of the site is stored here; some settings have their defaults below it."""
if os.environ.get(LOG_FORMAT_VARIABLE) == "json":
    LOGGING = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "jobs.logs.JSONFormatter"}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["console"]},
    }
JOBS = _from_environment("JOBS_")
VIDEOS = _from_environment("VIDEOS_")
