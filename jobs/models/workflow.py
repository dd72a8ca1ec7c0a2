"""Workflows: jobs joined by prerequisites (a DAG; an edge is only ever drawn from a new job to existing ones)."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from jobs.models.fields import ulid_primary_key


class Workflow(models.Model):
    id = ulid_primary_key()
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.name} {self.id}"


class Prerequisite(models.Model):
    """`job` waits for `needs`; an optional edge is content with any end."""

    job = models.ForeignKey(
        "jobs.Job", on_delete=models.CASCADE, db_index=False, related_name="prerequisites"
    )
    needs = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="dependants")
    optional = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "needs"], name="jobs_one_edge")]

    def __str__(self) -> str:
        return f"{self.job_id} needs {self.needs_id}"
