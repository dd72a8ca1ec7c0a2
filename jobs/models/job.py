"""The job: one unit of work, and the only thing a worker claims."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from jobs.database import now_minus
from jobs.models.fields import BytewiseCharField, ULIDField, ulid_primary_key
from jobs.priorities import NORMAL


class Status(models.TextChoices):
    WAITING = "waiting"
    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ACTIVE = (Status.WAITING, Status.PENDING, Status.PROCESSING)
"""Jobs that still have something ahead of them; a unique key is unique among these."""
FINISHED = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)


class JobQuerySet(models.QuerySet["Job"]):
    """Adjectives select. The derived states of SPEC 1.2 are defined here, once."""

    def active(self) -> JobQuerySet:
        return self.filter(status__in=ACTIVE)

    def pending(self) -> JobQuerySet:
        return self.filter(status=Status.PENDING)

    def due(self) -> JobQuerySet:
        """Waiting for nothing but the orchestrator: the time has come."""
        return self.filter(status=Status.WAITING, blocked=False, run_at__lte=Now())

    def leased(self) -> JobQuerySet:
        return self.filter(status=Status.PROCESSING)

    def unclaimed(self) -> JobQuerySet:
        return self.filter(status__in=(Status.WAITING, Status.PENDING))

    def claimed(self) -> JobQuerySet:
        return self.leased().filter(claim_expires_at__gt=Now())

    def expired(self) -> JobQuerySet:
        return self.leased().filter(claim_expires_at__lte=Now())

    def retrying(self) -> JobQuerySet:
        return self.unclaimed().exclude(last_error="")

    def completed(self) -> JobQuerySet:
        return self.filter(status=Status.COMPLETED)

    def failed(self) -> JobQuerySet:
        return self.filter(status=Status.FAILED)

    def with_stale_marks(self) -> JobQuerySet:
        """What no transition leaves behind: the claim of a lease that is over, or the error of a completed job. Their
        history is in the attempts."""
        claim = Q(claimed_at__isnull=False) & ~Q(status__in=(Status.PROCESSING, Status.COMPLETED))
        error = Q(status=Status.COMPLETED) & ~Q(last_error="")
        return self.filter(claim | error)

    def in_claim_order(self) -> JobQuerySet:
        return self.order_by("priority", "run_at", "id")

    def recently_alive(self, stale_timeout: Any) -> JobQuerySet:
        """Leased jobs that have started, or shown progress, within the stale timeout."""
        return self.leased().filter(last_checkpoint__gt=now_minus(stale_timeout))


DERIVED_STATES = ("unclaimed", "claimed", "expired", "retrying", "completed", "failed")


class Job(models.Model):
    id = ulid_primary_key()
    type = models.CharField(max_length=100)
    payload = models.JSONField(default=dict)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.PENDING)
    priority = models.IntegerField(default=NORMAL, db_default=NORMAL, help_text="lower runs first")
    run_at = models.DateTimeField(db_default=Now(), help_text="not before; once pending: claimable since")
    blocked = models.BooleanField(default=False, db_default=False, help_text="waits for a prerequisite")

    # Without a database constraint: checking it would cost every claim an extra query per job (see invariants.py).
    worker = models.ForeignKey(
        "jobs.Worker",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        db_index=False,
        db_constraint=False,
        related_name="running_jobs",
    )
    lease_token = models.BigIntegerField(
        default=0, db_default=0, help_text="up by one at every claim and every recovery"
    )
    claimed_at = models.DateTimeField(null=True, blank=True)
    claim_expires_at = models.DateTimeField(null=True, blank=True)

    attempt_number = models.IntegerField(default=0, db_default=0)
    max_attempts = models.IntegerField(default=3, db_default=3)
    last_error = models.TextField(blank=True, default="", db_default="")
    current_step = models.CharField(max_length=100, blank=True, default="", db_default="")
    progress_percent = models.FloatField(default=0, db_default=0)
    last_checkpoint = models.DateTimeField(null=True, blank=True)

    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True, help_text="first start")
    completed_at = models.DateTimeField(null=True, blank=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)
    cancelled_because = ULIDField(
        blank=True, default="", db_default="", help_text="the prerequisite that failed"
    )

    processed_by_worker_id = ULIDField(blank=True, default="", db_default="")
    processed_by_worker_name = models.CharField(max_length=200, blank=True, default="", db_default="")
    correlation_id = BytewiseCharField(
        max_length=64, help_text="its own id, unless it belongs to something larger"
    )
    unique_key = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001 (NULL: no key)
    submitter = models.CharField(max_length=200, blank=True, default="", db_default="")
    result = models.JSONField(null=True, blank=True)
    has_dependants = models.BooleanField(
        default=False, db_default=False, help_text="its end concerns other jobs"
    )
    workflow = models.ForeignKey(
        "jobs.Workflow", null=True, blank=True, on_delete=models.PROTECT, db_index=False, related_name="jobs"
    )
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, db_index=False, related_name="children"
    )

    objects: ClassVar[Any] = JobQuerySet.as_manager()

    created: bool = True
    """On the object that enqueue returns: False when an active job had the unique key already."""

    class Meta:
        indexes = [
            # What a claim reads, and nothing else: a million waiting rows are not in it.
            models.Index(
                "type", "priority", "run_at", "id", name="jobs_claimable", condition=Q(status="pending")
            ),
            models.Index("worker", name="jobs_leased", condition=Q(status="processing")),
            models.Index("run_at", name="jobs_due", condition=Q(status="waiting", blocked=False)),
            models.Index("id", name="jobs_blocked", condition=Q(status="waiting", blocked=True)),
            models.Index("workflow", name="jobs_in_workflow", condition=Q(workflow__isnull=False)),
            models.Index("parent", name="jobs_children", condition=Q(parent__isnull=False)),
            models.Index("id", name="jobs_dead_letters", condition=Q(status="failed")),
            # For people who search. A job by itself, as most are, has no entry: it is found by its id.
            models.Index("correlation_id", name="jobs_correlated", condition=~Q(correlation_id=F("id"))),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["unique_key"],
                name="jobs_one_active_per_key",
                condition=Q(status__in=["waiting", "pending", "processing"], unique_key__isnull=False),
            ),
            models.CheckConstraint(name="jobs_known_status", condition=Q(status__in=Status.values)),
            models.CheckConstraint(
                name="jobs_lease_iff_processing",
                condition=Q(
                    status="processing",
                    worker__isnull=False,
                    claim_expires_at__isnull=False,
                    claimed_at__isnull=False,
                    lease_token__gt=0,
                )
                | (~Q(status="processing") & Q(worker__isnull=True, claim_expires_at__isnull=True)),
            ),
            models.CheckConstraint(
                name="jobs_completed_iff_dated",
                condition=Q(status="completed", completed_at__isnull=False)
                | (~Q(status="completed") & Q(completed_at__isnull=True)),
            ),
            models.CheckConstraint(
                name="jobs_attempts_in_bounds",
                condition=Q(
                    attempt_number__gte=0, max_attempts__gte=1, attempt_number__lte=F("max_attempts")
                ),
            ),
            models.CheckConstraint(
                name="jobs_progress_in_bounds",
                condition=Q(progress_percent__gte=0, progress_percent__lte=100),
            ),
            models.CheckConstraint(
                name="jobs_blocked_only_waiting", condition=Q(blocked=False) | Q(status="waiting")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.id}"
