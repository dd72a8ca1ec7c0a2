"""The wait between two attempts: a pure function of the attempt, the settings and chance."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from jobs.backoff import backoff

attempts = st.integers(min_value=1, max_value=1_000_000)
bases = st.timedeltas(min_value=timedelta(milliseconds=1), max_value=timedelta(hours=1))
caps = st.timedeltas(min_value=timedelta(hours=1), max_value=timedelta(days=30))
chances = st.floats(min_value=0, max_value=1, exclude_max=True)


@given(attempt=attempts, base=bases, cap=caps, chance=chances)
def test_the_wait_is_never_longer_than_the_cap_and_never_zero(
    attempt: int, base: timedelta, cap: timedelta, chance: float
) -> None:
    assert timedelta(0) < backoff(attempt, base=base, cap=cap, chance=chance) <= cap


@given(attempt=attempts, base=bases, cap=caps, chance=chances)
def test_a_later_attempt_never_waits_shorter_by_the_same_chance(
    attempt: int, base: timedelta, cap: timedelta, chance: float
) -> None:
    this, following = (backoff(n, base=base, cap=cap, chance=chance) for n in (attempt, attempt + 1))
    assert this <= following


@given(attempt=attempts, base=bases, cap=caps, one=chances, other=chances)
def test_chance_spreads_the_wait_over_its_upper_half(
    attempt: int, base: timedelta, cap: timedelta, one: float, other: float
) -> None:
    shorter, longer = (backoff(attempt, base=base, cap=cap, chance=chance) for chance in sorted((one, other)))
    assert shorter <= longer <= 2 * shorter + timedelta(microseconds=1)


@given(attempt=st.integers(min_value=1, max_value=10), chance=chances)
def test_the_wait_doubles_until_the_cap(attempt: int, chance: float) -> None:
    base, cap = timedelta(seconds=10), timedelta(days=1000)
    once, twice = (backoff(n, base=base, cap=cap, chance=chance) for n in (attempt, attempt + 1))
    assert abs(twice - 2 * once) <= timedelta(microseconds=2)


def test_the_default_waits_are_five_to_ten_seconds_then_ten_to_twenty() -> None:
    base, cap = timedelta(seconds=10), timedelta(hours=1)
    assert backoff(1, base=base, cap=cap, chance=0) == timedelta(seconds=5)
    assert backoff(2, base=base, cap=cap, chance=0) == timedelta(seconds=10)
    assert backoff(2, base=base, cap=cap, chance=0.5) == timedelta(seconds=15)
    assert backoff(50, base=base, cap=cap, chance=0) == timedelta(minutes=30)
