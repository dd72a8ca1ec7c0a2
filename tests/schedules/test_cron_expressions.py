"""Cron expressions: the moments they mean, also where clocks are put forward and back; what is wrong with bad ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.timetable.expressions import BadExpression, Expression
from jobs.timetable.policy import CatchUp, choose, ticks_wanted

BERLIN = ZoneInfo("Europe/Berlin")


def ticks(cron: str, zone: str, start: str, count: int) -> list[str]:
    """The next ticks after a moment, as UTC."""
    expression = Expression(cron, zone)
    moment = datetime.fromisoformat(start).replace(tzinfo=UTC)

    def following() -> list[datetime]:
        found = [expression.after(moment)]
        while len(found) < count:
            found.append(expression.after(found[-1]))
        return found

    return [f"{tick:%m-%d %H:%M}" for tick in following()]


def test_an_expression_is_read_in_its_time_zone() -> None:
    assert ticks("0 3 * * *", "UTC", "2026-06-01", 2) == ["06-01 03:00", "06-02 03:00"]
    assert ticks("0 3 * * *", "Europe/Berlin", "2026-06-01", 2) == ["06-01 01:00", "06-02 01:00"]
    assert ticks("0 3 * * *", "Europe/Berlin", "2026-12-01", 1) == ["12-01 02:00"]
    assert ticks("30 9 * * MON-FRI", "Asia/Kolkata", "2026-06-05 12:00", 1) == ["06-08 04:00"]
    assert ticks("0 0 L * *", "UTC", "2026-02-01", 2) == ["02-28 00:00", "03-31 00:00"]


# Berlin in 2026: on 29 March at 02:00 (01:00 UTC) it is suddenly 03:00; on 25 October at 03:00 (01:00 UTC) 02:00 again.


def test_a_time_that_is_skipped_fires_at_the_first_moment_that_exists() -> None:
    found = ticks("30 2 * * *", "Europe/Berlin", "2026-03-28", 3)
    assert found == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]


def test_several_times_that_are_skipped_together_fire_once() -> None:
    found = ticks("0,20,40 2 * * *", "Europe/Berlin", "2026-03-28 12:00", 3)
    assert found == ["03-29 01:00", "03-30 00:00", "03-30 00:20"]


def test_a_time_that_comes_twice_fires_the_first_time_only() -> None:
    found = ticks("30 2 * * *", "Europe/Berlin", "2026-10-24", 3)
    assert found == ["10-24 00:30", "10-25 00:30", "10-26 01:30"]


@pytest.mark.parametrize("minute", ["0:05", "0:35", "1:05", "1:35"])
def test_from_within_the_hour_that_comes_twice_the_next_tick_lies_ahead(minute: str) -> None:
    """Local times 02:05 and 02:35, the first and the second time; by its local time alone a tick would lie behind."""
    now = datetime.fromisoformat(f"2026-10-25T0{minute}:00+00:00")
    tick = Expression("50 2 * * *", "Europe/Berlin").after(now)
    assert tick == datetime(2026, 10, 25 if now.hour == 0 else 26, 0 if now.hour == 0 else 1, 50, tzinfo=UTC)


@pytest.mark.parametrize("start", ["2026-03-28 23:00", "2026-10-24 23:00"])
@pytest.mark.parametrize("cron", ["*/30 * * * *", "0,30 * * * *", "0 0,30 * * * *"])
def test_what_fires_every_half_hour_goes_by_elapsed_time(cron: str, start: str) -> None:
    expression = Expression(cron, "Europe/Berlin")
    tick = expression.after(datetime.fromisoformat(start).replace(tzinfo=UTC))
    for _ in range(12):
        following = expression.after(tick)
        assert following - tick == timedelta(minutes=30)
        tick = following


def test_six_fields_go_by_elapsed_time_though_minute_and_hour_are_fixed() -> None:
    assert ticks("0 30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", 1) == ["03-30 00:30"]
    assert ticks("0 30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", 2) == ["10-25 00:30", "10-25 01:30"]


def test_with_six_fields_the_first_is_the_second() -> None:
    expression = Expression("*/20 * * * * *", "UTC")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert expression.after(start) == start + timedelta(seconds=20)


crons = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "30 2 * * *", "0,30 1-3 * * *", "0 3 * * SUN", "0 0 1 * *", "*/10 * * * * *"]
)
moments = st.timedeltas(timedelta(0), timedelta(days=365)).map(
    lambda passed: datetime(2026, 1, 1, tzinfo=UTC) + passed
)


@given(crons, st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]), moments)
def test_the_next_tick_always_lies_ahead_and_its_own_is_never_told_again(
    cron: str, zone: str, moment: datetime
) -> None:
    expression = Expression(cron, zone)
    first = expression.after(moment)
    assert moment < first < expression.after(first)
    assert expression.after(first - timedelta(microseconds=1)) == first


@given(crons, st.sampled_from(["UTC", "Europe/Berlin"]), moments, st.integers(1, 40), st.integers(1, 30))
def test_the_newest_ticks_are_the_last_of_those_that_follow_one_another(
    cron: str, zone: str, start: datetime, count: int, limit: int
) -> None:
    expression = Expression(cron, zone)
    every = [expression.after(start)]
    while len(every) < count:
        every.append(expression.after(every[-1]))
    assert expression.newest(every[0], every[-1], limit) == every[-limit:]
    assert expression.newest(every[0], every[-1] - timedelta(microseconds=1), limit) == every[:-1][-limit:]


def test_the_newest_ticks_of_a_long_absence_are_found_quickly() -> None:
    expression = Expression("* * * * * *", "Europe/Berlin")
    until = datetime(2026, 6, 1, tzinfo=UTC)
    found = expression.newest(until - timedelta(days=3650), until, 100)
    assert found == [until - timedelta(seconds=99 - number) for number in range(100)]


@pytest.mark.parametrize(
    ("cron", "code", "shown"),
    [
        ("61 3 * * *", "bad_minute", "'61'"),
        ("0 24 * * *", "bad_hour", "'24'"),
        ("0 3 32 * *", "bad_day_of_month", "'32'"),
        ("0 3 * 13 *", "bad_month", "'13'"),
        ("0 3 * * FREITAG", "bad_day_of_week", "'FREITAG'"),
        ("0 3 * * 1-", "bad_day_of_week", "'1-'"),
        ("*/0 3 * * *", "bad_minute", "'*/0'"),
        ("99 * * * * *", "bad_second", "'99'"),
        ("0 3 31 2 *", "bad_day_of_month", "'31'"),
        ("0 3 */31 2 MON#5", "never_fires", "MON#5"),
        ("0 3 * *", "wrong_number_of_fields", "4"),
        ("", "wrong_number_of_fields", "0"),
        ("@daily", "wrong_number_of_fields", "1"),
        ("0 3 * * * * *", "wrong_number_of_fields", "7"),
        ("9" * 5000 + " * * * *", "too_long", "100"),
        ("٣ * * * *", "bad_minute", "'٣'"),
    ],
    ids=lambda text: text[:20],
)
def test_a_bad_expression_is_refused_with_the_field_that_is_wrong(cron: str, code: str, shown: str) -> None:
    with pytest.raises(BadExpression) as refusal:
        Expression(cron, "UTC")
    assert refusal.value.code == code
    assert shown in str(refusal.value)


@pytest.mark.parametrize(
    "zone",
    ["", "Berlin", "Europe", "../../etc/passwd", "/etc/passwd", "Europe/Berlin\0", "x" * 10_000, "\udc80"],
)
def test_a_time_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(BadExpression) as refusal:
        Expression("0 3 * * *", zone)
    assert refusal.value.code == "not_a_time_zone"


@given(st.text(max_size=120), st.text(max_size=20))
def test_whatever_is_written_is_read_or_refused(cron: str, zone: str) -> None:
    assert fires_or_says_why_not(cron, "UTC")
    assert fires_or_says_why_not("0 3 * * *", zone)


def fires_or_says_why_not(cron: str, zone: str) -> bool:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    try:
        return Expression(cron, zone).after(now) > now
    except BadExpression as refusal:
        return bool(str(refusal))


@given(st.lists(moments, max_size=5).map(sorted), st.sampled_from(CatchUp), st.integers(0, 300))
def test_missed_ticks_are_made_up_for_as_the_policy_says(
    due: list[datetime], catch_up: CatchUp, late: int
) -> None:
    grace = timedelta(seconds=60)
    now = (due[-1] if due else datetime(2026, 1, 1, tzinfo=UTC)) + timedelta(seconds=late)
    chosen = choose(due, catch_up, now=now, grace=grace)
    match catch_up:
        case CatchUp.ALL:
            assert chosen == due
        case CatchUp.ONCE:
            assert chosen == due[-1:]
        case CatchUp.SKIP:
            assert chosen == (due[-1:] if late <= 60 else [])
    assert ticks_wanted(catch_up, 7) == (7 if catch_up is CatchUp.ALL else 1)


def test_berlin_as_docs_periodic_md_tells_it() -> None:
    expression = Expression("30 2 * * *", "Europe/Berlin")
    days = [datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)]
    local = [f"{expression.after(day).astimezone(BERLIN):%H:%M %Z}" for day in days]
    assert local == ["03:00 CEST", "02:30 CEST"]
