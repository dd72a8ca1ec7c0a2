"""What people do to job types at run time: pause, resume, limit. Each returns the names that changed."""

from __future__ import annotations

from collections.abc import Collection

from jobs import database, live, wakeup
from jobs.models import JobTypeState


def pause(names: Collection[str]) -> list[str]:
    """No more jobs of these types start; those that run go on."""
    return _change(names, paused=True)


def resume(names: Collection[str]) -> list[str]:
    return _change(names, paused=False)


def limit(names: Collection[str], concurrency: int | None) -> list[str]:
    """So many may run at once in the whole fleet; None: as declared in code."""
    return _change(names, concurrency=concurrency)


def _change(names: Collection[str], **values: bool | int | None) -> list[str]:
    with database.atomic():
        JobTypeState.objects.bulk_create([JobTypeState(name=name) for name in names], ignore_conflicts=True)
        rows = JobTypeState.objects.select_for_update().filter(name__in=names).order_by("name")
        changed = [
            row.name for row in rows if any(getattr(row, key) != value for key, value in values.items())
        ]
        JobTypeState.objects.filter(name__in=changed).update(**values)
        if changed:
            wakeup.on_commit()  # there may be something to claim now
            live.hint_on_commit()
    return changed
