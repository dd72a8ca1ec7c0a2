"""What the queue did, minute by minute. Counted afterwards (jobs/statistics.py), never on the way of a job."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models


class Minute(models.Model):
    """How many runs ended in the minute that began at `at`."""

    at = models.DateTimeField(primary_key=True)
    completed = models.BigIntegerField(default=0)
    failed = models.BigIntegerField(default=0, help_text="failed or lost with their worker")

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.at:%H:%M}: {self.completed} completed, {self.failed} failed"


class CountingMark(models.Model):
    """How far the counting has come: one row."""

    attempt = models.BigIntegerField(default=0, help_text="attempts up to this one have been looked at")
    still_open = models.JSONField(default=list, help_text="those of them that had not ended then")

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"up to attempt {self.attempt}"


class RunTotal(models.Model):
    """Everything that runs of one type ever added up to; it only grows (jobs/run_totals.py)."""

    type = models.CharField(max_length=100, primary_key=True)
    completed = models.BigIntegerField(default=0)
    failed = models.BigIntegerField(default=0)
    lost = models.BigIntegerField(default=0, help_text="with their worker")
    released = models.BigIntegerField(default=0)
    cancelled = models.BigIntegerField(default=0)
    exhausted = models.BigIntegerField(default=0, help_text="the last attempt of a job that failed")
    ran = models.JSONField(default=dict, help_text="by the upper end of a span: how many ran that long")
    ran_seconds = models.FloatField(default=0)
    waited = models.JSONField(default=dict, help_text="the same of the time between claimable and claimed")
    waited_seconds = models.FloatField(default=0)

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.type
