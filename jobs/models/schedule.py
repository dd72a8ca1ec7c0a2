"""Periodic jobs: the schedules, and every tick at which one has fired."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.models.fields import ULIDField
from jobs.timetable.policy import CatchUp


class Source(models.TextChoices):
    CODE = "code"
    ADMIN = "admin"


class Schedule(models.Model):
    name = models.CharField(max_length=100, primary_key=True)
    source = models.CharField(max_length=10, choices=Source.choices, default=Source.ADMIN)
    type = models.CharField("job type", max_length=100)
    payload = models.JSONField(
        default=dict, blank=True, help_text="the handler's arguments, as a JSON object"
    )
    cron = models.CharField(
        "cron expression",
        max_length=100,
        help_text="minute, hour, day of month, month, day of week: 0 3 * * * is three o'clock every day;"
        " with six fields the first is the second",
    )
    timezone = models.CharField("time zone", max_length=64, default="UTC", help_text="such as Europe/Berlin")
    priority = models.IntegerField(
        null=True, blank=True, help_text="lower runs first; empty: that of the type"
    )
    catch_up = models.CharField(
        max_length=10,
        choices=[
            (CatchUp.ONCE.value, "one job for all of them"),
            (CatchUp.SKIP.value, "nothing"),
            (CatchUp.ALL.value, "a job for each"),
        ],
        default=CatchUp.ONCE.value,
        help_text="what becomes of ticks that passed while no worker was there",
    )
    paused = models.BooleanField(default=False)
    removed = models.BooleanField(default=False, help_text="the code no longer declares it")
    problem = models.TextField(blank=True, default="", help_text="why it was paused by itself")
    next_at = models.DateTimeField("next firing", null=True, blank=True)

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        ordering = ["name"]
        indexes = [models.Index("next_at", name="jobs_schedule_due", condition=Q(next_at__isnull=False))]
        constraints = [
            models.CheckConstraint(
                name="jobs_schedule_next_iff_active",
                condition=Q(paused=False, removed=False, next_at__isnull=False)
                | (Q(next_at__isnull=True) & (Q(paused=True) | Q(removed=True))),
            )
        ]

    def __str__(self) -> str:
        return self.name


class Firing(models.Model):
    """One tick of a schedule and the job it brought; or somebody's "run now"."""

    schedule = models.ForeignKey(
        Schedule, on_delete=models.CASCADE, db_index=False, db_constraint=False, related_name="firings"
    )
    tick = models.DateTimeField(help_text="the moment that the expression means")
    by_hand = models.BooleanField(default=False)
    fired_at = models.DateTimeField(db_default=Now())
    job_id = ULIDField(blank=True, default="")
    error = models.TextField(blank=True, default="", help_text="why there is no job")

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        default_permissions = ()
        indexes = [models.Index("schedule", "tick", name="jobs_firings_of_schedule")]
        constraints = [
            models.UniqueConstraint(
                fields=["schedule", "tick"], name="jobs_one_firing_per_tick", condition=Q(by_hand=False)
            )
        ]

    def __str__(self) -> str:
        return f"{self.schedule_id} {self.tick:%Y-%m-%d %H:%M:%S}"
