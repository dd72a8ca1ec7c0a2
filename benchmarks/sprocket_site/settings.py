"""The apps of `startproject` and the queue, with its defaults except where the measures demand otherwise."""

from __future__ import annotations

import os
import socket
from typing import Any
from urllib.parse import parse_qs, urlsplit

from benchmarks import sqlite


def database() -> dict[str, Any]:
    if path := os.environ.get("BENCH_SQLITE_PATH"):
        return sqlite.database(path)
    url = urlsplit(os.environ["BENCH_DATABASE_URL"])
    # Under ASGI every request has a thread of its own, so that none finds the connection of the one before.
    kept: dict[str, Any] = {"OPTIONS": {"pool": True}} if "BENCH_POOL" in os.environ else {"CONN_MAX_AGE": 60}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path.removeprefix("/"),
        "USER": url.username,
        "HOST": parse_qs(url.query)["host"][0],
        **kept,
    }


if "BENCH_HOST" in os.environ:
    # A worker that believes it runs elsewhere: nobody here may judge it by this machine's process table.
    socket.gethostname = lambda: os.environ["BENCH_HOST"]

SECRET_KEY = "benchmark"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "benchmarks.sprocket_site.urls"
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "jobs",
    "benchmarks.sprocket_site",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
DATABASES = {"default": database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"

JOBS: dict[str, Any] = {
    # Two million rows are part of a measure.
    "MAX_DEPTH": 10_000_000,
    "WARN_DEPTH": 10_000_000,
    # After a restart of the database, proof by session lock waits this long; ours was started just now.
    "RECOVERY_GRACE": "1s",
}
if "BENCH_QUEUE_MODE" in os.environ:
    JOBS["QUEUE_MODE"] = os.environ["BENCH_QUEUE_MODE"]
    JOBS["REDIS_URL"] = os.environ.get("BENCH_REDIS_URL", "")
