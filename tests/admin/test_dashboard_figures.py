"""What the dashboard makes of numbers: words, percentiles, bounded counts, charts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs import database, enqueue_many
from jobs.dashboard import charts, depth, words
from jobs.dashboard.timing import percentile
from jobs.statistics import Ended, History

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (-3, "0 s"),
        (89.9, "89 s"),
        (90, "1 min"),
        (5399, "89 min"),
        (5400, "1 h"),
        (200_000, "2 d"),
    ],
)
def test_durations_in_words(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said
    assert words.duration(timedelta(seconds=seconds)) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0004, "0 ms"),
        (0.25, "250 ms"),
        (0.9999, "1.0 s"),
        (59.9, "59.9 s"),
        (61, "1 min 1 s"),
        (7200, "2 h"),
    ],
)
def test_measured_durations_in_words(seconds: float, said: str) -> None:
    assert words.fine_duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"), [(0, "0"), (9_999, "9,999"), (10_000, "10k"), (12_345, "12.3k"), (1_000_000, "1M")]
)
def test_numbers_in_words(value: int, said: str) -> None:
    assert words.number(value) == said


def test_a_percentile_is_a_value_that_occurred() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, rank) for rank in (50, 95, 99, 100)] == [50, 95, 99, 100]
    assert percentile([7.0], 99) == 7


def test_a_long_queue_is_counted_to_a_bound_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth, "COUNTED", 3)
    monkeypatch.setattr(depth, "COUNTED_OF_A_TYPE", 2)
    enqueue_many("tests.noop", [{}] * 3)
    assert str(depth.read_depth().pending) == "3"
    assert str(depth.read_types(["tests.noop"])["tests.noop"].pending) == "2+"
    enqueue_many("tests.noop", [{}] * 3)
    found = depth.read_depth().pending
    assert found.is_bound or found.is_estimate
    assert str(depth._count(4, 1_234_567.0)) == "≈ 1.2M"
    assert str(depth._count(4, None)) == "3+"


def test_a_chart_shows_what_is_small_beside_what_is_large() -> None:
    now = database.read_clock()
    minute = now.replace(second=0, microsecond=0)
    history = History(now, {minute: Ended(10_000, 1), minute - timedelta(minutes=1): Ended(1, 0)}, False)
    chart = charts.hour_chart(history)
    *_, before, last = chart.bars
    assert len(chart.bars) == 60
    assert before.completed_height >= 2
    assert last.failed_height >= 2
    assert last.failed_y >= 0
    assert last.failed_y + last.failed_height == pytest.approx(last.completed_y)
    assert last.completed_y + last.completed_height == pytest.approx(charts.HEIGHT)
    empty = charts.hour_chart(History(now, {}, False))
    assert (empty.completed, empty.failed, empty.highest) == (0, 0, 0)
    assert empty.title in empty.says
    assert "0" not in empty.says
