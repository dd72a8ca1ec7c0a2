"""Whether the site is there: the one row that all its web processes write."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from django.db import models
from django.db.models import Case, Exists, F, Q, When
from django.db.models.functions import Now

from jobs import conf, database

SHORTEST_ABSENCE = timedelta(seconds=1)
LONGEST_EXCUSE = timedelta(hours=1)
"""How long after its time a remote worker's lease ends, or its silence counts, whatever the site does: neither a site
that stays away nor one that keeps crashing holds jobs back for ever."""


def absence() -> timedelta:
    """The site was away if no web process gave a sign of life for this long: a shorter gap costs a remote worker at
    most one heartbeat."""
    return max(SHORTEST_ABSENCE, conf.current().heartbeat_interval)


def unseen_for(period: timedelta) -> Q:
    """A sign from the future (a clock was set back) counts as none."""
    return ~Q(seen_at__gte=database.now_minus(period), seen_at__lte=Now())


class SitePresenceQuerySet(models.QuerySet["SitePresence"]):
    def unsettled(self) -> SitePresenceQuerySet:
        """Away, or back for less than RECOVERY_GRACE: its remote workers may not have been heard yet."""
        just_back = Q(back_at__gt=database.now_minus(conf.current().recovery_grace), back_at__lte=Now())
        return self.filter(just_back | unseen_for(absence()))


class SitePresence(models.Model):
    seen_at = models.DateTimeField(help_text="the last sign of life of any web process")
    back_at = models.DateTimeField(help_text="when the site started after it had been away")

    objects: ClassVar[Any] = SitePresenceQuerySet.as_manager()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"seen {self.seen_at}, back since {self.back_at}"


def show_presence(*, arriving: bool) -> None:
    """Give a sign of life. `arriving`: this process has just started, or has not reached the database for a while; if
    no other one was there meanwhile, the site is back from now on."""
    row = SitePresence.objects.filter(pk=1)
    if not arriving:
        late = row.filter(unseen_for(absence() / 3))
        if late.exists():
            late.update(seen_at=Now())
        return
    was_away = When(unseen_for(absence()), then=Now())
    if not row.update(seen_at=Now(), back_at=Case(was_away, default=F("back_at"))):
        first = SitePresence(pk=1, seen_at=Now(), back_at=Now())
        SitePresence.objects.bulk_create([first], ignore_conflicts=True)


def site_is_unsettled() -> Q:
    """As a condition, so that whoever asks about workers or leases needs no second statement."""
    if not database.has_table(SitePresence):
        return Q(pk__in=[])
    return Q(Exists(SitePresence.objects.unsettled()))
