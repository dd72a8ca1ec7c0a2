"""Rate limits: the policy, and the counters that all web processes share."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import database, throttle
from jobs.exceptions import TooManyTries
from jobs.models import RateWindow
from jobs.rate_limits import SLOTS, Limit, client_of, forwarded_address, retry_after, slot_of
from tests.support.queue.actors import race_outcomes

THREE = Limit("tests", 3)


# -- policy ------------------------------------------------------------------------------------------------------------


def test_the_allowance_is_used_up_and_comes_back_with_the_next_period() -> None:
    limit = Limit("x", 3, period=60)
    assert [retry_after(limit, used, 10) for used in range(5)] == [None, None, None, 50, 50]
    assert retry_after(limit, 3, 59.9) == 1
    assert retry_after(limit, 3, 60) is None
    assert retry_after(limit, 3, -3600) is None, "the clock was set back"


@given(st.integers(0, 10), st.floats(-5, 100))
def test_a_wait_is_at_least_a_second_and_at_most_the_period(used: int, age: float) -> None:
    assert retry_after(Limit("x", 3), used, age) in {None, *range(1, 62)}


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        (" 192.0.2.7 ", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", "unknown"),
        ("unix:", "unknown"),
        ("999.1.1.1", "unknown"),
        ("1" * 10_000, "unknown"),
    ],
)
def test_a_client_is_a_machine_or_its_network(address: str, client: str) -> None:
    assert client_of(address) == client


@pytest.mark.parametrize(
    ("header", "proxies", "seen"),
    [
        ("6.6.6.6", 0, "10.0.0.1"),
        ("6.6.6.6, 192.0.2.7", 1, "192.0.2.7"),
        ("6.6.6.6, 192.0.2.7, 10.0.0.2", 2, "192.0.2.7"),
        ("192.0.2.7", 2, "10.0.0.1"),
        ("", 1, "10.0.0.1"),
        (" , ,", 1, "10.0.0.1"),
    ],
)
def test_only_what_trusted_proxies_wrote_is_believed(header: str, proxies: int, seen: str) -> None:
    assert forwarded_address("10.0.0.1", header, proxies) == seen


def test_clients_spread_over_a_fixed_number_of_slots_that_the_secret_chooses() -> None:
    clients = [f"10.0.{a}.{b}" for a in range(16) for b in range(256)]
    slots = Counter(slot_of(client, "x", "secret") for client in clients)
    assert 0 <= min(slots) <= max(slots) < SLOTS
    assert max(slots.values()) < 12
    assert [slot_of(c, "x", "other") for c in clients[:50]] != [
        slot_of(c, "x", "secret") for c in clients[:50]
    ]


# -- counters ----------------------------------------------------------------------------------------------------------


def tries(limit: Limit, address: str, times: int) -> list[int | None]:
    """Of each try: the seconds it was told to wait, None when it was let through."""
    told: list[int | None] = []
    for _ in range(times):
        try:
            throttle.take(limit, address)
            told.append(None)
        except TooManyTries as refusal:
            told.append(refusal.retry_after)
    return told


@pytest.mark.django_db
def test_tries_beyond_the_allowance_are_refused_until_the_period_is_over() -> None:
    assert tries(THREE, "192.0.2.7", 3) == [None] * 3
    waits = tries(THREE, "192.0.2.7", 2)
    assert all(wait is not None and 1 <= wait <= 60 for wait in waits)
    RateWindow.objects.update(started_at=database.now_minus(timedelta(seconds=61)))
    assert tries(THREE, "192.0.2.7", 3) == [None] * 3
    assert tries(THREE, "192.0.2.7", 1) != [None]


@pytest.mark.django_db
def test_a_window_from_the_future_does_not_lock_anybody_out() -> None:
    tries(THREE, "192.0.2.7", 5)
    RateWindow.objects.update(started_at=database.now_plus(timedelta(hours=5)))
    assert tries(THREE, "192.0.2.7", 1) == [None]


@pytest.mark.django_db
def test_other_clients_and_other_limits_have_their_own_count() -> None:
    tries(THREE, "192.0.2.7", 4)
    assert tries(THREE, "192.0.2.8", 1) == [None]
    assert tries(Limit("other", 3), "192.0.2.7", 1) == [None]


@pytest.mark.django_db
def test_who_is_over_the_limit_costs_a_read_and_no_write(django_assert_num_queries: object) -> None:
    tries(THREE, "192.0.2.7", 3)
    before = RateWindow.objects.get().count
    with django_assert_num_queries(1):  # type: ignore[operator]
        tries(THREE, "192.0.2.7", 1)
    assert RateWindow.objects.get().count == before


@pytest.mark.django_db
def test_however_many_addresses_there_are_the_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.rate_limits.SLOTS", 8)
    for number in range(60):
        tries(THREE, f"192.0.2.{number}", 1)
    assert RateWindow.objects.count() <= 8
    assert "192.0.2" not in str(list(RateWindow.objects.values()))


@pytest.mark.django_db(transaction=True)
def test_racing_requests_do_not_get_more_than_the_allowance() -> None:
    outcomes = race_outcomes([lambda: throttle.take(THREE, "192.0.2.7")] * 10)
    assert sum(outcome is None for outcome in outcomes) == 3
    assert sum(isinstance(outcome, TooManyTries) for outcome in outcomes) == 7
