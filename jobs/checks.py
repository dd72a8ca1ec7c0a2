"""System checks: an invalid setting is refused at start-up, a doubtful database is pointed out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.checks import Tags as CheckTags

from jobs import conf

TAG = "jobs"
"""What must be in order before a worker starts."""


@register(TAG)
def check_settings(**kwargs: Any) -> list[CheckMessage]:
    return [
        Error(problem, hint="See jobs/conf.py for every setting and its default.", id="jobs.E001")
        for problem in conf.find_problems(getattr(settings, "JOBS", {}))
    ]


@register(TAG)
def check_priorities(**kwargs: Any) -> list[CheckMessage]:
    from jobs import registry
    from jobs.exceptions import BadValue
    from jobs.priorities import parse_priority

    if conf.find_problems(getattr(settings, "JOBS", {})):
        return []
    found: list[CheckMessage] = []
    for kind in registry.all_types():
        try:
            parse_priority(kind.priority)
        except BadValue as problem:
            hint = "Add the label to JOBS['PRIORITIES'], or give the type another priority."
            found.append(Error(f"The job type {kind.name}: {problem}", hint=hint, id="jobs.E004"))
    return found


@register(TAG)
def check_schedules(**kwargs: Any) -> list[CheckMessage]:
    from jobs import registry
    from jobs.timetable.declarations import all_declared

    return [
        Error(
            f"The schedule {own.name} asks for jobs of type {own.type!r}, and no such type is declared.",
            hint="Declare it with @job_type in the job_types.py of an installed app.",
            id="jobs.E003",
        )
        for own in all_declared().values()
        if registry.find(own.type) is None
    ]


@register(TAG)
def check_redis(**kwargs: Any) -> list[CheckMessage]:
    raw = getattr(settings, "JOBS", {})
    if conf.find_problems(raw) or not (found := conf.current()).redis_url or found.queue_mode != "database":
        return []
    return [
        Warning(
            "JOBS['REDIS_URL'] is set, but nothing uses Redis: JOBS['QUEUE_MODE'] is 'database'.",
            hint="Set QUEUE_MODE to 'hybrid' or 'redis', or leave REDIS_URL out.",
            id="jobs.W002",
        )
    ]


@register(CheckTags.database)
def check_database(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    from jobs.database import alias, connection

    if not databases or alias() not in databases:
        return []
    conn = connection()
    if conn.vendor == "postgresql":
        return []
    if conn.vendor != "sqlite":
        return [Error(f"Jobs cannot live in {conn.vendor}; use PostgreSQL or SQLite.", id="jobs.E002")]
    with conn.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        mode = cursor.fetchone()[0]
    if mode in ("wal", "memory"):
        return []
    return [
        Warning(
            f"SQLite runs in journal mode {mode!r}: readers and workers block each other.",
            hint="Add OPTIONS={'init_command': 'PRAGMA journal_mode=WAL;', 'transaction_mode': 'IMMEDIATE'}.",
            id="jobs.W001",
        )
    ]
