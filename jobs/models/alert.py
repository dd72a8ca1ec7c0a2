"""What the fleet remembers of its alerts: when each kind was last sent, and which failures belong together."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models


class AlertKind(models.Model):
    """One row per kind of alert; its lock is the rate limit of the whole fleet."""

    kind = models.CharField(max_length=40, primary_key=True)
    sent_at = models.DateTimeField(
        null=True, blank=True, help_text="when the last one was handed to the queue"
    )
    sent = models.BigIntegerField(default=0)
    suppressed = models.BigIntegerField(default=0, help_text="held back by the rate limit, ever")
    suppressed_since = models.BigIntegerField(default=0, help_text="held back since the last one was sent")
    undelivered = models.BigIntegerField(default=0, help_text="given up: the endpoint did not take them")

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.kind


class FailurePattern(models.Model):
    """Jobs that failed for good lately with the same error: of the same type, or about the same thing."""

    key = models.CharField(max_length=32, primary_key=True, help_text="a digest of what they have in common")
    count = models.IntegerField(default=0)
    started_at = models.DateTimeField()
    last_at = models.DateTimeField(db_index=True)
    alerted_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.key}: {self.count}"
