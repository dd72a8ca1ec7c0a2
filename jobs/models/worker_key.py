"""A worker's key: what a remote worker shows to be that worker. The key itself is never stored."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

PREFIX_LENGTH = 8


class WorkerKeyQuerySet(models.QuerySet["WorkerKey"]):
    def usable(self) -> WorkerKeyQuerySet:
        """Neither revoked nor expired, by the database's clock."""
        unexpired = Q(expires_at__isnull=True) | Q(expires_at__gt=Now())
        return self.filter(unexpired, revoked_at__isnull=True)


class WorkerKey(models.Model):
    worker = models.ForeignKey("jobs.Worker", on_delete=models.CASCADE, related_name="keys")
    prefix = models.CharField(
        max_length=PREFIX_LENGTH, db_index=True, help_text="its first characters, to tell keys apart"
    )
    sha256 = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.CharField(max_length=200, blank=True, default="")
    expires_at = models.DateTimeField(null=True, blank=True, help_text="empty: never")
    last_used_at = models.DateTimeField(null=True, blank=True, help_text="to the minute")
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.CharField(max_length=200, blank=True, default="")

    objects: ClassVar[Any] = WorkerKeyQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        verbose_name = "worker key"

    def __str__(self) -> str:
        return f"{self.prefix}…"
