"""An attempt: one run of a job by one worker, kept until the job is pruned."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from jobs.models.fields import ULIDField


class Outcome(models.TextChoices):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released", "released (not counted)"
    LOST = "lost", "lost with its worker"
    CANCELLED = "cancelled"


class Attempt(models.Model):
    # Without a database constraint: checking it would cost every claim an extra query per job (see invariants.py).
    job = models.ForeignKey(
        "jobs.Job", on_delete=models.CASCADE, db_index=False, db_constraint=False, related_name="attempts"
    )
    token = models.BigIntegerField(help_text="the lease token of this run")
    number = models.IntegerField()
    worker_id = ULIDField()
    worker_name = models.CharField(max_length=200)
    started_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(
        max_length=10, choices=Outcome.choices, default=Outcome.RUNNING, db_default=Outcome.RUNNING
    )
    error_type = models.CharField(max_length=200, blank=True, default="", db_default="")
    error = models.TextField(blank=True, default="", db_default="")
    traceback = models.TextField(blank=True, default="", db_default="")

    class Meta:
        ordering = ["job", "token"]
        constraints = [
            models.UniqueConstraint(fields=["job", "token"], name="jobs_one_attempt_per_lease"),
            models.CheckConstraint(
                name="jobs_attempt_open_iff_running",
                condition=models.Q(outcome="running", finished_at__isnull=True)
                | (~models.Q(outcome="running") & models.Q(finished_at__isnull=False)),
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.job_id}: {self.outcome}"
