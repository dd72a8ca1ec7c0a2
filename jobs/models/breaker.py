"""A circuit breaker as the whole fleet sees it, and the trial calls that hold a place while it is half-open."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.breakers.policy import Circuit, State
from jobs.models.fields import ULIDField, ulid_primary_key


class Breaker(models.Model):
    """Written on its first failure; before that a breaker is closed and has no row."""

    name = models.CharField(max_length=100, primary_key=True)
    state = models.CharField(
        max_length=10, choices=[(state.value, state.value) for state in State], default=State.CLOSED.value
    )
    failures = models.PositiveIntegerField(default=0, help_text="in a row")
    retry_at = models.DateTimeField(null=True, blank=True, help_text="when trial calls are let through")
    since = models.DateTimeField(db_default=Now(), help_text="in this state")
    reason = models.TextField(blank=True, default="", help_text="the last failure")
    failed_at = models.DateTimeField(null=True, blank=True, help_text="when that was")

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        ordering = ["name"]
        default_permissions = ("view", "change")
        constraints = [
            models.CheckConstraint(
                name="jobs_breaker_known_state", condition=Q(state__in=[state.value for state in State])
            ),
            models.CheckConstraint(
                name="jobs_breaker_open_until",
                condition=Q(state="open", retry_at__isnull=False)
                | (~Q(state="open") & Q(retry_at__isnull=True)),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def circuit(self) -> Circuit:
        return Circuit(State(self.state), self.failures, self.retry_at)


class BreakerProbe(models.Model):
    """A trial call. That of a job holds its place as long as the job's lease; any other until `expires_at`."""

    id = ulid_primary_key()
    breaker = models.CharField(max_length=100)
    job_id = ULIDField(blank=True, default="")
    token = models.BigIntegerField(default=0, help_text="of the job's lease")
    started_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        default_permissions = ()
        indexes = [models.Index("breaker", name="jobs_probes_of_breaker")]

    def __str__(self) -> str:
        return f"{self.breaker} {self.job_id or self.pk}"
