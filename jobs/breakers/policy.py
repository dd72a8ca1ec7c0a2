"""The state machine of a breaker: closed → open → half-open → closed or open. Time is an argument."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum


class State(StrEnum):
    CLOSED = "closed"
    """Every call goes through."""
    OPEN = "open"
    """No call goes through until the cooldown is over."""
    HALF_OPEN = "half-open"
    """A few trial calls go through; the first of them to return decides."""


class Verdict(StrEnum):
    """What a call that has returned says about the service. One that says nothing has no verdict."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Terms:
    failures: int
    """So many failures in a row open it."""
    cooldown: timedelta
    probes: int
    """So many trial calls at once while it is half-open."""
    probe_timeout: timedelta
    """A trial call that has not returned after this long no longer holds its place."""


@dataclass(frozen=True, slots=True)
class Circuit:
    state: State = State.CLOSED
    failures: int = 0
    """In a row."""
    retry_at: datetime | None = None
    """When an open one lets trial calls through."""


def as_of(circuit: Circuit, now: datetime) -> Circuit:
    """The same circuit, half-open if it was open and its cooldown is over."""
    if circuit.retry_at is not None and circuit.retry_at <= now:
        return replace(circuit, state=State.HALF_OPEN, retry_at=None)
    return circuit


def places(circuit: Circuit, terms: Terms, probing: int) -> int | None:
    """How many more calls may start, beside so many trial calls under way; None: any number."""
    if circuit.state is State.CLOSED:
        return None
    return max(0, terms.probes - probing) if circuit.state is State.HALF_OPEN else 0


def next_state(circuit: Circuit, verdict: Verdict, terms: Terms, *, is_probe: bool, now: datetime) -> Circuit:
    """After a call has returned. Calls that began before it opened change nothing once it is open or half-open."""
    decides = circuit.state is State.CLOSED or (circuit.state is State.HALF_OPEN and is_probe)
    if not decides:
        return circuit
    if verdict is Verdict.SUCCESS:
        return Circuit()
    failures = circuit.failures + 1
    if circuit.state is State.HALF_OPEN or failures >= terms.failures:
        return Circuit(State.OPEN, failures, now + terms.cooldown)
    return replace(circuit, failures=failures)
