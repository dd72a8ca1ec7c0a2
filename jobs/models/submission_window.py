"""How many jobs a submitter has enqueued in a minute: the counter behind RateLimited."""

from __future__ import annotations

from django.db import models


class SubmissionWindow(models.Model):
    submitter = models.CharField(max_length=200)
    minute = models.DateTimeField()
    count = models.IntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["submitter", "minute"], name="jobs_one_window")]

    def __str__(self) -> str:
        return f"{self.submitter} {self.minute}: {self.count}"
