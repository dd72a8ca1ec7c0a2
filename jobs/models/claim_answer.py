"""What a claim over HTTP was answered, so that a repeated request gets the same leases and no others."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models.functions import Now


class ClaimAnswer(models.Model):
    # Without a database constraint: a release that does not know this table must be able to delete workers.
    worker = models.ForeignKey(
        "jobs.Worker",
        on_delete=models.CASCADE,
        db_index=False,
        db_constraint=False,
        related_name="claim_answers",
    )
    key = models.CharField(max_length=64, help_text="the idempotency key of the request")
    at = models.DateTimeField(db_default=Now())
    leases = models.JSONField(help_text="job and token of each lease that was given")

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["worker", "key"], name="jobs_one_answer_per_key")]

    def __str__(self) -> str:
        return f"{self.worker_id} {self.key}"
