"""How often something was tried lately, by clients that share a slot: the counter behind HTTP 429."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models


class RateWindow(models.Model):
    name = models.CharField(max_length=20, help_text="what is limited")
    slot = models.IntegerField(help_text="the client's address falls into one of a fixed number of slots")
    started_at = models.DateTimeField()
    count = models.IntegerField()

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["name", "slot"], name="jobs_one_rate_window")]

    def __str__(self) -> str:
        return f"{self.name} {self.slot}: {self.count}"
