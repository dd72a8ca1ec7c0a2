"""How much of each type may start now: pauses, limits over the whole fleet, and patience for idle GPU workers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from django.db.models import Count, Q
from django.db.models.functions import Now

from jobs import conf, registry
from jobs.breakers import binding
from jobs.lifecycle.recovering import expiry_counts, recover_expired
from jobs.models import Job, JobTypeState, Worker

UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Room:
    """How much of a type may be claimed now."""

    slots: int
    min_age: float = 0.0
    """Seconds that a job must have been claimable."""
    probes: str = ""
    """The half-open breaker whose trial calls these jobs are."""

    def less(self, taken: int) -> Room:
        return replace(self, slots=self.slots - taken)


def rooms_for(
    types: Collection[str],
    states: Mapping[str, JobTypeState],
    shut: Mapping[str, bool],
    me: Worker,
    running: Mapping[str, int],
) -> dict[str, Room]:
    """Inside the claim's transaction: limited types stay locked until it commits, so that no limit overshoots.

    `shut`: the breakers that are not closed, and whether each lets trial calls through now.
    """
    open_types = [
        name
        for name in types
        if (name not in states or not states[name].paused) and shut.get(binding.breaker_of(name) or "", True)
    ]
    rooms = {name: _room_here(name, running.get(name, 0)) for name in open_types}
    limits = {name: limit for name in open_types if (limit := _limit(name, states.get(name))) is not None}
    if limits:
        for name, leases in _locked_running(limits).items():
            rooms[name] = Room(max(0, min(rooms[name].slots, limits[name] - leases)))
    rooms = {name: _with_patience(name, room, me) for name, room in rooms.items()}
    return _with_trials(rooms, shut) if shut else rooms


def _with_trials(rooms: dict[str, Room], shut: Mapping[str, bool]) -> dict[str, Room]:
    """Of types whose breaker is half-open, as many as it has places. Its row stays locked until the claim commits."""
    slots = {name: room.slots for name, room in rooms.items()}
    shares = binding.share_places(rooms, slots, [name for name, on_trial in shut.items() if on_trial])
    return {
        name: replace(room, slots=shares[name], probes=binding.breaker_of(name) or "")
        if name in shares
        else room
        for name, room in rooms.items()
    }


def _limit(name: str, state: JobTypeState | None) -> int | None:
    """How many of this type may run in the whole fleet: what people chose, else what the code declares."""
    if state is not None and state.concurrency is not None:
        return state.concurrency
    kind = registry.find(name)
    return kind.concurrency if kind else None


def _room_here(name: str, running: int) -> Room:
    kind = registry.find(name)
    return Room(max(0, kind.per_worker - running) if kind and kind.per_worker else UNLIMITED)


def _locked_running(limits: dict[str, int]) -> dict[str, int]:
    """Live leases per limited type, counted under the lock of the type's row."""
    JobTypeState.objects.bulk_create(
        [JobTypeState(name=name) for name in sorted(limits)], ignore_conflicts=True
    )
    list(
        JobTypeState.objects.filter(name__in=limits).order_by("name").select_for_update().values_list("name")
    )
    leases = _count_leases(limits)
    if any(expired for _, expired in leases.values()) and expiry_counts(of_remote=False):
        # They hold no place; so they end here for good, lest a late renewal bring one back beside its successor.
        recover_expired(limits)
        leases = _count_leases(limits)
    return {name: leases.get(name, (0, 0))[0] for name in limits}


def _count_leases(types: Iterable[str]) -> dict[str, tuple[int, int]]:
    """By type: how many leases there are, and how many of them have expired."""
    late = Count("pk", filter=Q(claim_expires_at__lte=Now()))
    leased = Job.objects.leased().filter(type__in=list(types)).order_by().values_list("type")
    return {name: (held, expired) for name, held, expired in leased.annotate(held=Count("pk"), late=late)}


def _with_patience(name: str, room: Room, me: Worker) -> Room:
    """A worker without the preferred capability leaves young jobs to idle workers that have it."""
    kind = registry.find(name)
    if kind is None or kind.prefers is None or kind.prefers in me.capabilities or room.slots == 0:
        return room
    settings = conf.current()
    rivals = (
        Worker.objects.enabled()
        .online()
        .heard_within(settings.heartbeat_interval * 2)
        .filter(draining=False, stopped_at__isnull=True, running_jobs__isnull=True)
        .exclude(pk=me.pk)
        .values_list("capabilities", "job_types")
    )
    wanted = kind.requires | {kind.prefers}
    if any(wanted <= set(capabilities) and name in handled for capabilities, handled in rivals):
        return Room(room.slots, settings.gpu_patience.total_seconds())
    return room
