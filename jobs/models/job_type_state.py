"""What people change about a job type at run time. Its row is also the lock that guards a concurrency limit."""

from __future__ import annotations

from django.db import models


class JobTypeState(models.Model):
    name = models.CharField(max_length=100, primary_key=True)
    paused = models.BooleanField(default=False)
    concurrency = models.PositiveIntegerField(
        null=True, blank=True, help_text="overrides the limit declared in code; empty: as declared"
    )

    class Meta:
        ordering = ["name"]
        verbose_name = "job type"

    def __str__(self) -> str:
        return self.name
