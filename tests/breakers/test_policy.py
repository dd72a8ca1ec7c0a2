"""The state machine of a breaker, by itself: whatever happens to it, these rules hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jobs.breakers.policy import Circuit, State, Terms, Verdict, as_of, next_state, places

START = datetime(2026, 1, 1, tzinfo=UTC)
COOLDOWN = timedelta(seconds=60)

terms = st.builds(
    Terms,
    failures=st.integers(1, 6),
    cooldown=st.just(COOLDOWN),
    probes=st.integers(1, 4),
    probe_timeout=st.just(COOLDOWN),
)
verdicts = st.sampled_from(Verdict)


def after(circuit: Circuit, verdict: Verdict, by: Terms, *, is_probe: bool = False) -> Circuit:
    return next_state(circuit, verdict, by, is_probe=is_probe, now=START)


@given(terms)
def test_it_opens_at_the_last_of_so_many_failures_in_a_row_and_not_before(by: Terms) -> None:
    circuit = Circuit()
    for number in range(1, by.failures + 1):
        assert circuit.state is State.CLOSED
        circuit = after(circuit, Verdict.FAILURE, by)
        assert circuit.failures == number
    assert circuit == Circuit(State.OPEN, by.failures, START + COOLDOWN)


@given(terms, st.lists(verdicts))
def test_it_opens_exactly_when_the_failures_since_the_last_success_reach_the_limit(
    by: Terms, story: list[Verdict]
) -> None:
    circuit, in_a_row = Circuit(), 0
    for verdict in story:
        circuit = after(circuit, verdict, by)
        in_a_row = 0 if verdict is Verdict.SUCCESS else in_a_row + 1
        if in_a_row == by.failures:
            assert circuit.state is State.OPEN
            return
        assert circuit == Circuit(failures=in_a_row)


@given(terms, verdicts, st.booleans(), st.timedeltas(timedelta(0), COOLDOWN))
def test_while_open_nothing_that_returns_changes_it_and_nothing_goes_through(
    by: Terms, verdict: Verdict, is_probe: bool, passed: timedelta
) -> None:
    circuit = Circuit(State.OPEN, by.failures, START + COOLDOWN)
    now = START + passed
    assert next_state(circuit, verdict, by, is_probe=is_probe, now=now) == circuit
    assert places(circuit, by, 0) == 0
    assert as_of(circuit, now).state is (State.OPEN if passed < COOLDOWN else State.HALF_OPEN)


@given(terms, verdicts, st.integers(0, 10))
def test_half_open_has_so_many_places_and_only_a_trial_call_decides(
    by: Terms, verdict: Verdict, probing: int
) -> None:
    circuit = as_of(Circuit(State.OPEN, by.failures, START), START)
    assert places(circuit, by, probing) == max(0, by.probes - probing)
    assert after(circuit, verdict, by) == circuit
    decided = after(circuit, verdict, by, is_probe=True)
    if verdict is Verdict.SUCCESS:
        assert decided == Circuit()
    else:
        assert (decided.state, decided.retry_at) == (State.OPEN, START + COOLDOWN)


@given(terms, st.datetimes(timezones=st.just(UTC)))
def test_time_alone_never_opens_or_closes_it(by: Terms, now: datetime) -> None:
    assert as_of(Circuit(failures=by.failures - 1), now) == Circuit(failures=by.failures - 1)
    half_open = Circuit(State.HALF_OPEN, by.failures)
    assert as_of(half_open, now) == half_open


class Fleet(RuleBasedStateMachine):
    """Calls that start when they are let through, and return in any order, late, or never."""

    by = Terms(failures=3, cooldown=COOLDOWN, probes=2, probe_timeout=COOLDOWN)

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.circuit = Circuit()
        self.calls: list[bool] = []
        """Those under way: whether each holds the place of a trial call."""
        self.failed_in_a_row = 0

    @rule()
    def a_call_asks(self) -> None:
        self.circuit = as_of(self.circuit, self.now)
        room = places(self.circuit, self.by, sum(self.calls))
        if room is None or room > 0:
            self.calls.append(room is not None)

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), verdict=verdicts)
    def a_call_returns(self, data: st.DataObject, verdict: Verdict) -> None:
        is_probe = self.calls.pop(data.draw(st.integers(0, len(self.calls) - 1)))
        before = self.circuit
        self.circuit = next_state(before, verdict, self.by, is_probe=is_probe, now=self.now)
        if self.circuit.state is not before.state:
            self.calls = [False] * len(self.calls)  # who has not returned by now decides nothing any more

    @precondition(lambda self: any(self.calls))
    @rule()
    def a_trial_call_dies(self) -> None:
        self.calls.remove(True)

    @rule(seconds=st.integers(1, 90))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @invariant()
    def no_more_trial_calls_than_places(self) -> None:
        assert sum(self.calls) <= self.by.probes

    @invariant()
    def trial_calls_only_while_half_open(self) -> None:
        assert self.circuit.state is State.HALF_OPEN or not any(self.calls)

    @invariant()
    def open_exactly_as_long_as_it_says(self) -> None:
        assert (self.circuit.state is State.OPEN) == (self.circuit.retry_at is not None)
        if self.circuit.retry_at is not None:
            assert self.circuit.retry_at <= self.now + self.by.cooldown

    @invariant()
    def it_can_always_recover(self) -> None:
        """Once everybody is gone and the cooldown is over, one success closes it."""
        later = as_of(self.circuit, self.now + self.by.cooldown)
        room = places(later, self.by, 0)
        assert room is None or room > 0
        closed = next_state(later, Verdict.SUCCESS, self.by, is_probe=room is not None, now=self.now)
        assert closed == replace(closed, state=State.CLOSED, failures=0)


TestFleet = Fleet.TestCase
