"""django-tasks with its database backend, on SQLite, run by its own `db_worker`."""

from __future__ import annotations

import os
from collections.abc import Sequence

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.peers.django_tasks_db_settings")
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import transaction  # noqa: E402
from django_tasks import task  # noqa: E402
from django_tasks.base import TaskResultStatus  # noqa: E402
from django_tasks_db.models import DBTaskResult  # noqa: E402

from benchmarks import ledger  # noqa: E402
from benchmarks.subject import Options, Subject  # noqa: E402


@task()
def noop(index: int) -> None:
    ledger.record(index)


class DjangoTasksDatabase:
    def prepare(self) -> None:
        call_command("migrate", verbosity=0)
        DBTaskResult.objects.all().delete()

    def enqueue(self, index: int) -> None:
        noop.enqueue(index)

    def enqueue_many(self, indexes: Sequence[int]) -> None:
        with transaction.atomic():  # no bulk call; one commit is the next best
            for index in indexes:
                noop.enqueue(index)

    def unfinished(self) -> int:
        return DBTaskResult.objects.exclude(status=TaskResultStatus.SUCCESSFUL).count()

    def workers(self, options: Options) -> list[list[str]]:
        settings = os.environ["DJANGO_SETTINGS_MODULE"]
        command = ["python", "-m", "django", "db_worker", "--settings", settings]
        return [[*command, "--no-startup-delay", "--verbosity", "0"]] * int(options.get("processes", 1))


def subject() -> Subject:
    return DjangoTasksDatabase()
