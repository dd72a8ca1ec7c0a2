"""The site of the queue, with the videos."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.sprocket_site import settings as queue_site
from benchmarks.sprocket_site.settings import *  # noqa: F403

ROOT_URLCONF = "benchmarks.admin_site.urls"
INSTALLED_APPS = [*queue_site.INSTALLED_APPS, "videos"]
VIDEOS = {"ROOT": str(Path(os.environ["BENCH_FOLDER"]) / "shelves")}
