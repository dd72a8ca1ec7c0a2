"""A worker: a process that claims jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from django.db import models
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q
from django.db.models.functions import Now
from django.utils.functional import cached_property

from jobs import conf, database, processes
from jobs.database import now_minus
from jobs.models.fields import ulid_primary_key
from jobs.models.site_presence import LONGEST_EXCUSE, site_is_unsettled
from jobs.models.worker_key import WorkerKey


class WorkerKind(models.TextChoices):
    LOCAL = "local", "local (database connection)"
    REMOTE = "remote", "remote (HTTPS, with a key)"
    SITE = "site", "the site itself (delivers alerts while no worker does)"


class WorkerStatus(models.TextChoices):
    ACTIVE = "active", "active (registered)"
    IDLE = "idle"
    BUSY = "busy"
    OFFLINE = "offline"


def _is_revoked() -> Q:
    keys = WorkerKey.objects.filter(worker=OuterRef("pk"))
    revoked: Q = Q(Exists(keys.filter(revoked_at__isnull=False))) & ~Q(Exists(keys.usable()))
    return Q(kind=WorkerKind.REMOTE) & revoked


class WorkerQuerySet(models.QuerySet["Worker"]):
    def enabled(self) -> WorkerQuerySet:
        return self.filter(disabled=False)

    def online(self) -> WorkerQuerySet:
        """By their records, which may be older than their deaths: `living()` of jobs/fleet.py tells who is alive. The
        site is no worker to count on."""
        return self.exclude(status=WorkerStatus.OFFLINE).exclude(kind=WorkerKind.SITE)

    def silent(self) -> WorkerQuerySet:
        """Not heard of for OFFLINE_THRESHOLD, where that says something about them."""
        return self.filter(_is_silent())

    def judged(self) -> WorkerQuerySet:
        """Each of these workers, as people see them, knows its state as of now, whatever its record says."""
        silence = ExpressionWrapper(_is_silent(), output_field=BooleanField())
        revocation = ExpressionWrapper(_is_revoked(), output_field=BooleanField())
        # In place of asking for each
        return self.exclude(kind=WorkerKind.SITE).annotate(silence=silence, is_revoked=revocation)  # type: ignore[no-redef]

    def silent_for(self, period: timedelta) -> WorkerQuerySet:
        """No heartbeat for this long, for whatever reason."""
        return self.filter(_unheard_for(period))

    def revoked(self) -> WorkerQuerySet:
        """Remote workers whose keys were revoked: none is left that opens anything."""
        return self.filter(_is_revoked())

    def heard_within(self, period: timedelta) -> WorkerQuerySet:
        return self.filter(last_heartbeat__gte=now_minus(period))


def _is_silent() -> Q:
    """Who could not be heard is not silent: nobody could while the database was down, and no remote worker while the
    site was."""
    settings = conf.current()
    just_started = database.started_within(settings.recovery_grace)
    could_not_be_heard = just_started | (Q(kind=WorkerKind.REMOTE) & site_is_unsettled())
    for_ages = _unheard_for(settings.offline_threshold + LONGEST_EXCUSE)
    return _unheard_for(settings.offline_threshold) & (for_ages | ~could_not_be_heard)


def _unheard_for(period: timedelta) -> Q:
    """One that never sent a heartbeat is judged by its registration."""
    limit = now_minus(period)
    return Q(last_heartbeat__lt=limit) | Q(last_heartbeat__isnull=True, registered_at__lt=limit)


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
        """What people see: revoked and disabled outrank whatever the process says of itself."""
        if not self.is_online and self.kind == WorkerKind.REMOTE and self.is_revoked:
            return "revoked"
        if self.disabled:
            return "disabled"
        return self.status if self.is_online else WorkerStatus.OFFLINE

    @property
    def is_online(self) -> bool:
        """Not recorded as offline, (on objects of `judged()`) not silent, and not dead as far as this host knows."""
        return self.status != WorkerStatus.OFFLINE and not self.is_silent and not self.death_seen_here()

    @property
    def is_silent(self) -> bool:
        """On objects of `judged()`: not heard of for too long."""
        return bool(getattr(self, "silence", False))

    def death_seen_here(self) -> str:
        """Why its process certainly no longer runs, by what this host alone can tell; empty: that is not certain."""
        if self.stopped_at is not None:
            return f"worker {self.name} has said goodbye"
        if self.kind == WorkerKind.REMOTE:
            return ""  # nothing here can tell silence from death: its leases run out
        if self.is_of_this_host:
            assert self.pid is not None
            gone = processes.is_gone(self.pid, self.process_start)
            return f"process {self.pid} of worker {self.name} no longer exists" if gone else ""
        here, there = processes.this_host(), processes.Host.parse(self.host)
        if not database.is_postgres() and here.name == there.name and here.boot != there.boot:
            # A SQLite file is used on one machine only, and that machine has been started again since.
            return f"the machine of worker {self.name} has been restarted"
        return ""

    @property
    def is_of_this_host(self) -> bool:
        """The process table here knows its process; its word is final either way."""
        return self.pid is not None and processes.Host.parse(self.host) == processes.this_host()

    @property
    def order(self) -> str:
        """What people want of it: "draining" (finish and stop), "disabled" (finish and wait) or "" (go on)."""
        return "draining" if self.draining else "disabled" if self.disabled else ""
