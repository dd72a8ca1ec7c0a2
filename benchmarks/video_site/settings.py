"""The other site with the videos: their defaults except for what the rivals don't do, and the folder."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.sprocket_site import settings as queue_site

SECRET_KEY = queue_site.SECRET_KEY
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "benchmarks.video_site.urls"
USE_TZ = True
INSTALLED_APPS = [
    *(app for app in queue_site.INSTALLED_APPS if not app.startswith("benchmarks.")),
    "videos",
    "benchmarks.video_site",
]
TEMPLATES = queue_site.TEMPLATES
MIDDLEWARE = queue_site.MIDDLEWARE
DATABASES = queue_site.DATABASES
DEFAULT_AUTO_FIELD = queue_site.DEFAULT_AUTO_FIELD
STATIC_URL = queue_site.STATIC_URL

JOBS = {"RECOVERY_GRACE": queue_site.JOBS["RECOVERY_GRACE"]}
VIDEOS = {
    "ROOT": str(Path(os.environ["BENCH_FOLDER"]) / "videos"),
    "SEGMENTS_PER_CHUNK": int(os.environ["BENCH_SEGMENTS_PER_CHUNK"]),
    "TRANSCRIBER": "off",  # nobody waits for it, and no rival writes down what is said
}
