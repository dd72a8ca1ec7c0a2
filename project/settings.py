"""Settings of the site, all of them from environment variables.

DEBUG                  false; `make run` sets it
SECRET_KEY             required in production; for `make run` one is generated and kept in .secret_key
ALLOWED_HOSTS          comma-separated host names, required in production
CSRF_TRUSTED_ORIGINS   comma-separated origins (https://…), behind a proxy
DATABASE_URL           sqlite:///… or postgresql://…; a SQLite file in the project by default
LOG_LEVEL              INFO
LOG_FORMAT             line; json writes one JSON object per line, with job, type, correlation id and worker
MEDIA_ROOT             where the videos are kept; the folder media in the project by default
JOBS_<KEY>             becomes JOBS["<KEY>"]; jobs/conf.py knows the keys and checks the values
VIDEOS_<KEY>           becomes VIDEOS["<KEY>"]; videos/conf.py knows the keys and checks the values
"""

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import environ
from django.core.exceptions import ImproperlyConfigured
from django.core.management.utils import get_random_secret_key

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY_FILE = BASE_DIR / ".secret_key"

env = environ.Env()


def secret_key() -> str:
    """The key given by the environment, else the one generated on this machine."""
    if given := os.environ.get("SECRET_KEY"):
        return given
    if DEBUG and not SECRET_KEY_FILE.exists():
        SECRET_KEY_FILE.touch(mode=0o600)
        SECRET_KEY_FILE.write_text(get_random_secret_key())
    if SECRET_KEY_FILE.exists():
        return SECRET_KEY_FILE.read_text().strip()
    raise ImproperlyConfigured(
        "SECRET_KEY is not set. Set it to a long random string that stays the same between restarts; "
        "for development set DEBUG=true and one is generated."
    )


def database() -> dict[str, Any]:
    config: dict[str, Any] = env.db_url(
        "DATABASE_URL", default=f"sqlite:///{quote(str(BASE_DIR / 'db.sqlite3'))}"
    )
    options = config.setdefault("OPTIONS", {})
    if config["ENGINE"] == "django.db.backends.sqlite3":
        # A writer takes its lock at BEGIN and waits for it; in mid-transaction it would fail at once.
        options.setdefault("transaction_mode", "IMMEDIATE")
        options.setdefault("timeout", 20)
        # Readers beside the writer; a commit is on the disk before it is reported.
        options.setdefault("init_command", "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;")
    else:
        config.setdefault("CONN_MAX_AGE", 60)
        config.setdefault("CONN_HEALTH_CHECKS", True)
    return config


DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = secret_key()
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=[])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "jobs",
    "videos",
    "project",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
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

ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
ASGI_APPLICATION = "project.asgi.application"

DATABASES = {"default": database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
VENDOR = BASE_DIR / "vendor"  # hls.js, which make installs where there is npm
STATICFILES_DIRS = [VENDOR] if VENDOR.is_dir() else []

MEDIA_ROOT = env.path("MEDIA_ROOT", default=str(BASE_DIR / "media"))()


def from_environment(prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in os.environ.items() if name.startswith(prefix)}


JOBS = from_environment("JOBS_")
VIDEOS = from_environment("VIDEOS_")


def log_format() -> str:
    chosen: str = env.str("LOG_FORMAT", default="line")
    if chosen not in ("line", "json"):
        raise ImproperlyConfigured(f"LOG_FORMAT is line or json, not {chosen!r}.")
    return chosen


LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
        "json": {"()": "jobs.logs.JSONFormatter"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": log_format()}},
    "root": {"handlers": ["console"], "level": env.str("LOG_LEVEL", default="INFO")},
}
