"""Whether the database has what the code needs. While a new release is rolled out it may not have it yet, and whoever
starts early waits: the migrations are on their way, and the old code does the work meanwhile."""

from __future__ import annotations

import importlib
import pkgutil
import threading

from django.apps import apps
from django.db import router
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils.module_loading import module_has_submodule

from jobs import database

_current = threading.Event()


def missing() -> list[str]:
    """Migrations of this app, and of those with job types, that have not been applied to the jobs' database."""
    if _current.is_set():  # nobody takes a migration back under running code
        return []
    needed = [(label, name) for label in _labels() for name in _names(label)]
    applied = MigrationRecorder(database.connection()).applied_migrations()
    absent = [f"{label}.{name}" for label, name in needed if (label, name) not in applied]
    if not absent:
        _current.set()
    return absent


def _labels() -> list[str]:
    alias = database.alias()
    return [
        app.label
        for app in apps.get_app_configs()
        if (app.label == "jobs" or (app.module and module_has_submodule(app.module, "job_types")))
        and router.allow_migrate(alias, app.label)
    ]


def _names(label: str) -> list[str]:
    """Without importing a single one: workers start often."""
    module, _ = MigrationLoader.migrations_module(label)
    if module is None:  # switched off by MIGRATION_MODULES
        return []
    try:
        package = importlib.import_module(module)
    except ModuleNotFoundError:
        return []
    return [found.name for found in pkgutil.iter_modules(package.__path__) if found.name[0] not in "_~"]
