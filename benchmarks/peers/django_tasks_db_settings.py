"""The smallest site django-tasks-db runs on; SQLite set up as for Sprocket."""

from benchmarks.sqlite import database
from benchmarks.subject import sqlite_path

SECRET_KEY = "benchmark"
DEBUG = False
USE_TZ = True
INSTALLED_APPS = ["django_tasks", "django_tasks_db"]
DATABASES = {"default": database(sqlite_path())}
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
