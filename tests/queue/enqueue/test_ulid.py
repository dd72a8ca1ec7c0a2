"""Identifiers: 26 characters that sort by time, ascending within a process, and derived ones that never change."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.ulid import derived_ulid, new_ulid, new_ulids, ulid_floor

CROCKFORD = set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")


def milliseconds(text: str) -> int:
    value = 0
    for character in text[:10]:
        value = value * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(character)
    return value


def test_it_has_26_characters_of_crockfords_alphabet_and_tells_the_time() -> None:
    before, made, after = time.time_ns() // 1_000_000, new_ulid(), time.time_ns() // 1_000_000
    assert len(made) == 26
    assert set(made) <= CROCKFORD
    assert made[0] <= "7", "48 bits of time"
    assert before <= milliseconds(made) <= after


@given(st.lists(st.integers(1, 500), max_size=10))
def test_they_ascend_within_a_batch_and_from_call_to_call(counts: list[int]) -> None:
    made = [one for count in counts for one in new_ulids(count)]
    assert made == sorted(set(made))
    assert len(made) == sum(counts)


def test_they_ascend_although_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first, now = new_ulid(), time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now - 3_600 * 10**9)
    assert new_ulid() > first


def test_racing_threads_never_make_the_same_one() -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend(new_ulids(2_000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8_000


@given(st.text(), st.text())
def test_a_derived_one_follows_from_parent_and_key(key: str, other: str) -> None:
    parent, stranger = "01J00000000000000000000000", "01J00000000000000000000001"
    made = derived_ulid(parent, key)
    assert made == derived_ulid(parent, key)
    assert len(made) == 26
    assert set(made) <= CROCKFORD
    assert made[:10] == parent[:10], "it sorts beside its parent"
    assert made != derived_ulid(stranger, key)
    assert (made == derived_ulid(parent, other)) == (key == other)


def test_a_derived_one_stays_the_same_for_ever() -> None:
    """It names rows that an earlier version of this software has written."""
    assert derived_ulid("01J00000000000000000000000", "child") == "01J00000005Q23T9T9YJWYDQC9"


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_the_floor_of_a_moment_lies_below_all_that_was_made_since(earlier: int, later: int) -> None:
    earlier, later = sorted([earlier, later])
    assert ulid_floor(earlier / 1000) <= ulid_floor(later / 1000)
    assert len(ulid_floor(later / 1000)) == 26


def test_the_floor_of_now_lies_below_the_next_one() -> None:
    before = time.time()
    assert ulid_floor(before) < new_ulid() < ulid_floor(before + 60)
