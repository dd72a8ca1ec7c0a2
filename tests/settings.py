"""The project's settings, for tests and for the worker processes that tests start."""

import os

import django

os.environ.setdefault("SECRET_KEY", "used by the tests only")

from project.settings import *

INSTALLED_APPS = [*INSTALLED_APPS, "tests.jobapp"]
if django.VERSION < (6, 0):
    INSTALLED_APPS += ["django_tasks"]
TASKS = {
    "default": {"BACKEND": "jobs.tasks_backend.SprocketBackend", "QUEUES": ["default", "mail"]},
    "stubborn": {
        "BACKEND": "jobs.tasks_backend.SprocketBackend",
        "QUEUES": [],
        "OPTIONS": {"MAX_ATTEMPTS": 3},
    },
}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A file, where Django would take memory: other processes must reach the test database too.
    DATABASES["default"]["TEST"] = {"NAME": f"{DATABASES['default']['NAME']}.test"}
elif template := os.environ.get("TESTS_MIGRATED_DATABASE"):
    DATABASES["default"]["TEST"] = {"TEMPLATE": template}
