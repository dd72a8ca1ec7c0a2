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
    place: str = ""

    def given(self, **options: int | str) -> Contender:
        return replace(self, options={**self.options, **options})

    def at(self, place: str) -> Contender:
        """The same, in a database of its own."""
        return replace(self, place=place)

    @property
    def label(self) -> str:
        if not self.options:
            return self.name
        return f"{self.name} ({', '.join(f'{key} {value}' for key, value in self.options.items())})"

    @property
    def key(self) -> str:
        """One database, one file per subject, store and place; its configurations share it."""
        subject = self.module.rpartition(".")[2]
        return "_".join(filter(None, (subject, self.store, self.place)))


SPROCKET = Contender("Sprocket", "benchmarks.sprocket_site.sprocket", "postgresql")
SPROCKET_ADMIN = Contender("Sprocket", "benchmarks.admin_site.visitor", "postgresql")
SPROCKET_SQLITE = Contender("Sprocket", "benchmarks.sprocket_site.sprocket", "sqlite")

PROCRASTINATE = Contender("Procrastinate", "benchmarks.peers.procrastinate", "postgresql")
PGQUEUER = Contender("PgQueuer", "benchmarks.peers.pgqueuer", "postgresql")
HUEY_REDIS = Contender("Huey+Redis", "benchmarks.peers.huey", "redis")
HUEY_SQLITE = Contender("Huey on SQLite", "benchmarks.peers.huey", "sqlite")
DRAMATIQ = Contender("dramatiq+Redis", "benchmarks.peers.dramatiq", "redis")
CELERY = Contender("Celery+Redis", "benchmarks.peers.celery", "redis")
DJANGO_TASKS_DB = Contender("django-tasks-db on SQLite", "benchmarks.peers.django_tasks_db", "sqlite")
