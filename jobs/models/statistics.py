"""What the queue did, minute by minute. Counted afterwards (jobs/statistics.py), never on the way of a job."""

from __future__ import annotations

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
