"""Versions: what is older than what."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.versions import is_outdated, parse_version

IN_ORDER = ["0", "0.0.9", "0.1", "0.1.1", "0.9", "0.10", "1", "1.0.1", "1.2", "2.0.0", "10"]


def test_versions_are_compared_by_their_numbers() -> None:
    for older, newer in pairwise(IN_ORDER):
        assert is_outdated(older, newer), (older, newer)
        assert not is_outdated(newer, older), (newer, older)


def test_trailing_zeros_and_suffixes_do_not_matter() -> None:
    assert not is_outdated("1.2", "1.2.0")
    assert not is_outdated("1.2.0", "1.2")
    assert not is_outdated("1.2.0rc1", "1.2")


def test_without_a_minimum_nothing_is_outdated() -> None:
    assert not any(is_outdated(version, "") for version in ["", "0", "nonsense", "source"])


@pytest.mark.parametrize("version", ["", "nonsense", "v1", "-1", ".1", "1" * 50, "\0", "٣.1"])
def test_what_cannot_be_compared_is_outdated(version: str) -> None:
    assert is_outdated(version, "0.0.1")


def test_a_checkout_passes() -> None:
    assert not is_outdated("source", "99")


@given(st.text(max_size=60))
def test_any_text_is_a_version_or_not(text: str) -> None:
    numbers = parse_version(text)
    assert numbers is None or all(number >= 0 for number in numbers)
