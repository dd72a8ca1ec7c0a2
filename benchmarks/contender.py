"""A subject in one configuration, such as PgQueuer with two processes and batches of 10."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from benchmarks.subject import Options

Store = Literal["postgresql", "sqlite", "redis"]


@dataclass(frozen=True)
class Contender:
    name: str
    module: str
    store: Store
    options: Options = field(default_factory=dict)

    def given(self, **options: int | str) -> Contender:
        return replace(self, options={**self.options, **options})

    @property
    def label(self) -> str:
        if not self.options:
            return self.name
        return f"{self.name} ({', '.join(f'{key} {value}' for key, value in self.options.items())})"

    @property
    def key(self) -> str:
        """One database, one file per subject and store; its configurations share it."""
        return f"{self.module.rpartition('.')[2]}_{self.store}"


SPROCKET = Contender("Sprocket", "benchmarks.sprocket_site.sprocket", "postgresql")
SPROCKET_SQLITE = Contender("Sprocket", "benchmarks.sprocket_site.sprocket", "sqlite")

PROCRASTINATE = Contender("Procrastinate", "benchmarks.peers.procrastinate", "postgresql")
PGQUEUER = Contender("PgQueuer", "benchmarks.peers.pgqueuer", "postgresql")
HUEY_REDIS = Contender("Huey+Redis", "benchmarks.peers.huey", "redis")
HUEY_SQLITE = Contender("Huey on SQLite", "benchmarks.peers.huey", "sqlite")
DRAMATIQ = Contender("dramatiq+Redis", "benchmarks.peers.dramatiq", "redis")
CELERY = Contender("Celery+Redis", "benchmarks.peers.celery", "redis")
DJANGO_TASKS_DB = Contender("django-tasks-db on SQLite", "benchmarks.peers.django_tasks_db", "sqlite")
