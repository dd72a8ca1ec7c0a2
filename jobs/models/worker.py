"""A worker: a process that claims jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from django.db import models
from django.db.models import Exists, ExpressionWrapper, OuterRef, Q
from django.db.models.functions import Now
from django.utils.functional import cached_property

from jobs.database import now_minus
from jobs.models.fields import ulid_primary_key
from jobs.models.worker_key import WorkerKey


class WorkerKind(models.TextChoices):
    LOCAL = "local", "local (database connection)"
    REMOTE = "remote", "remote (HTTPS, with a key)"


class WorkerStatus(models.TextChoices):
    ACTIVE = "active", "active (registered)"
    IDLE = "idle"
    BUSY = "busy"
    OFFLINE = "offline"


def _is_revoked() -> Q:
    keys = WorkerKey.objects.filter(worker=OuterRef("pk"))
    revoked: Q = Q(Exists(keys.filter(revoked_at__isnull=False))) & ~Q(Exists(keys.usable()))
    return Q(kind=WorkerKind.REMOTE) & revoked


def state_of(status: str, *, disabled: bool, revoked: bool) -> str:
    """Revoked and disabled outrank whatever the process says of itself."""
    if revoked and status == WorkerStatus.OFFLINE:
        return "revoked"
    return "disabled" if disabled else status


class WorkerQuerySet(models.QuerySet["Worker"]):
    def enabled(self) -> WorkerQuerySet:
        return self.filter(disabled=False)

    def online(self) -> WorkerQuerySet:
        return self.exclude(status=WorkerStatus.OFFLINE)

    def silent_for(self, threshold: timedelta) -> WorkerQuerySet:
        """No heartbeat for this long; one that never sent any is judged by its registration."""
        limit = now_minus(threshold)
        return self.filter(
            Q(last_heartbeat__lt=limit) | Q(last_heartbeat__isnull=True, registered_at__lt=limit)
        )

    def revoked(self) -> WorkerQuerySet:
        """Remote workers whose keys were revoked: none is left that opens anything."""
        return self.filter(_is_revoked())

    def with_revocation(self) -> WorkerQuerySet:
        """For lists: `state` of these costs no further query."""
        flag = ExpressionWrapper(_is_revoked(), output_field=models.BooleanField())
        return self.annotate(is_revoked=flag)  # type: ignore[no-redef]  # in place of asking for each

    def heard_within(self, period: timedelta) -> WorkerQuerySet:
        return self.filter(last_heartbeat__gte=now_minus(period))


class Worker(models.Model):
    id = ulid_primary_key()
    name = models.CharField(max_length=200, unique=True)
    kind = models.CharField(max_length=10, choices=WorkerKind.choices, default=WorkerKind.LOCAL)
    status = models.CharField(max_length=10, choices=WorkerStatus.choices, default=WorkerStatus.ACTIVE)
    disabled = models.BooleanField(default=False, help_text="set and cleared by people only")
    draining = models.BooleanField(default=False, help_text="asked to finish what it runs and stop")

    host = models.CharField(
        max_length=200, blank=True, default="", help_text="machine, boot and process namespace"
    )
    pid = models.IntegerField(null=True, blank=True)
    process_start = models.CharField(max_length=100, blank=True, default="")
    lock_key = models.IntegerField(
        null=True, blank=True, help_text="its PostgreSQL session lock, if it holds one"
    )
    lock_missing_since = models.DateTimeField(null=True, blank=True)

    job_types = models.JSONField(default=list, help_text="the types it handles")
    capabilities = models.JSONField(default=list)
    concurrency = models.IntegerField(default=1)
    version = models.CharField(max_length=50, blank=True, default="")
    metadata = models.JSONField(
        default=dict, blank=True, db_default={}, help_text="what a remote worker tells about itself"
    )

    registered_at = models.DateTimeField(db_default=Now())
    last_heartbeat = models.DateTimeField(null=True, blank=True)
    stopped_at = models.DateTimeField(null=True, blank=True, help_text="said goodbye")

    objects: ClassVar[Any] = WorkerQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @cached_property
    def is_revoked(self) -> bool:
        """No key of it opens anything any more, since they were revoked."""
        return bool(Worker.objects.filter(pk=self.pk).revoked().exists())

    @property
    def state(self) -> str:
        """What people see, as `state_of` has it."""
        may_be_revoked = self.status == WorkerStatus.OFFLINE and self.kind == WorkerKind.REMOTE
        return state_of(self.status, disabled=self.disabled, revoked=may_be_revoked and self.is_revoked)

    @property
    def order(self) -> str:
        """What people want of it: "draining" (finish and stop), "disabled" (finish and wait) or "" (go on)."""
        return "draining" if self.draining else "disabled" if self.disabled else ""
