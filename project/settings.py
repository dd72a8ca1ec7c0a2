"""Settings of the site, all of them from environment variables.

DEBUG                  false; `make run` sets it
SECRET_KEY             required in production; for `make run` one is generated and kept in .secret_key
ALLOWED_HOSTS          comma-separated host names, required in production
CSRF_TRUSTED_ORIGINS   comma-separated origins (https://…), behind a proxy
HTTPS                  false; true in production: secure cookies, and http:// (but for the two /health) is sent to https://
HSTS_SECONDS           0; how long browsers remember that this host speaks HTTPS only
HSTS_SUBDOMAINS        false; true: so do all hosts below it
HSTS_PRELOAD           false; true: browsers may know it beforehand (hstspreload.org)
PROXY_SSL_HEADER       empty; the header with which the proxy says https, such as X-Forwarded-Proto. Only behind a proxy
                       that sets it itself on every request: a visitor could send it, too
SERVE_STATIC           false; true: the site's ASGI application serves STATIC_ROOT itself (deploy/requirements.txt)
STATIC_ROOT            where `collectstatic` puts the static files; the folder staticfiles in the project by default
DATABASE_URL           sqlite:///… or postgresql://…; a SQLite file in the project by default
DATABASE_POOL          0; how many connections to PostgreSQL a process of the site has for all requests (psycopg-pool);
                       0: each request has its own. Workers never share theirs
LOG_LEVEL              INFO
LOG_FORMAT             line; json writes one JSON object per line, with job, type, correlation id and worker
MEDIA_ROOT             where the videos are kept; the folder media in the project by default
S3_BUCKET              empty; a bucket for the videos, STORAGES["s3"], which VIDEOS_STORAGE=s3 uses (docs/storage.md)
S3_PREFIX              empty; how the name of everything in it begins
S3_REGION              us-east-1; where it is
S3_ENDPOINT_URL        empty: Amazon's; the address of another server that speaks S3
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY   for the bucket, unless the machine has a role there
REDIS_URL, REDIS_POOL_SIZE   become JOBS["REDIS_URL"] and JOBS["REDIS_POOL_SIZE"]
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


def proxy_ssl_header() -> tuple[str, str] | None:
    name = env.str("PROXY_SSL_HEADER", default="")
    return (f"HTTP_{name.upper().replace('-', '_')}", "https") if name else None


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
        if size := env.int("DATABASE_POOL", default=0):
            config["CONN_MAX_AGE"] = 0
            options["pool"] = {"min_size": 1, "max_size": size, "timeout": 10}
        config.setdefault("CONN_MAX_AGE", 60)
        config.setdefault("CONN_HEALTH_CHECKS", True)
        # Behind a transaction pooler the next FETCH of a server-side cursor may reach another session.
        config.setdefault("DISABLE_SERVER_SIDE_CURSORS", not env.bool("JOBS_SESSION_FEATURES", default=True))
    return config


def s3_storage(bucket: str) -> dict[str, Any]:
    from botocore.config import Config  # the extra s3

    endpoint = env.str("S3_ENDPOINT_URL", default="") or None
    return {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": {
            "bucket_name": bucket,
            "location": env.str("S3_PREFIX", default=""),
            "region_name": env.str("S3_REGION", default="us-east-1"),
            "endpoint_url": endpoint,
            "object_parameters": {"CacheControl": "private, max-age=31536000, immutable"},
            "client_config": Config(
                signature_version="s3v4",
                # Other servers have no host name for each bucket, and not every checksum that Amazon's has.
                s3={"addressing_style": "path" if endpoint else "virtual"},
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                connect_timeout=5,
                read_timeout=30,
                retries={"mode": "standard", "total_max_attempts": 3},
            ),
        },
    }


DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = secret_key()
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=[])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env.bool("HTTPS", default=False)
SECURE_REDIRECT_EXEMPT = [r"^(api/)?health$"]  # probes ask the process itself, not the proxy
SECURE_HSTS_SECONDS = env.int("HSTS_SECONDS", default=0)
SECURE_HSTS_INCLUDE_SUBDOMAINS = env.bool("HSTS_SUBDOMAINS", default=False)
SECURE_HSTS_PRELOAD = env.bool("HSTS_PRELOAD", default=False)
SECURE_PROXY_SSL_HEADER = proxy_ssl_header()

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
STATIC_ROOT = env.path("STATIC_ROOT", default=str(BASE_DIR / "staticfiles"))()
SERVE_STATIC = env.bool("SERVE_STATIC", default=False)
VENDOR = BASE_DIR / "vendor"  # hls.js, which make installs where there is npm
STATICFILES_DIRS = [VENDOR] if VENDOR.is_dir() else []

MEDIA_ROOT = env.path("MEDIA_ROOT", default=str(BASE_DIR / "media"))()
STORAGES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
if S3_BUCKET := env.str("S3_BUCKET", default=""):
    STORAGES["s3"] = s3_storage(S3_BUCKET)


def from_environment(prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in os.environ.items() if name.startswith(prefix)}


JOBS = {
    **{name: os.environ[name] for name in ("REDIS_URL", "REDIS_POOL_SIZE") if name in os.environ},
    **from_environment("JOBS_"),
}
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
