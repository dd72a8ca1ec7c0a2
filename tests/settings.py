"""The project's settings, for tests and for the worker processes that tests start."""

import os

os.environ.setdefault("SECRET_KEY", "used by the tests only")

from project.settings import *

INSTALLED_APPS = [*INSTALLED_APPS, "tests.jobapp"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A file, where Django would take memory: other processes must reach the test database too.
    DATABASES["default"]["TEST"] = {"NAME": f"{DATABASES['default']['NAME']}.test"}
