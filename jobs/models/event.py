"""An event: the trace of whatever happens to a job besides its attempts."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import models
from django.db.models.functions import Now

from jobs.payloads import storable


class Kind(models.TextChoices):
    RECOVERED = "recovered"
    RELEASED = "released"
    CANCELLED = "cancelled"
    RETRIED = "retried"
    REVIVED = "revived"
    RECONCILED = "reconciled"
    CHANGED = "changed", "changed by hand"


class Event(models.Model):
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="events")
    kind = models.CharField(max_length=20, choices=Kind.choices)
    at = models.DateTimeField(db_default=Now())
    actor = models.CharField(
        max_length=200, blank=True, default="", help_text="who did it; empty: the queue itself"
    )
    detail = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.kind} {self.job_id}"

    @classmethod
    def record(cls, job_ids: Iterable[str], kind: Kind, *, detail: str = "", actor: str = "") -> None:
        text = {"detail": storable(detail), "actor": storable(actor)[:200]}
        cls._default_manager.bulk_create(
            [cls(job_id=job_id, kind=kind, **text) for job_id in job_ids], batch_size=500
        )
