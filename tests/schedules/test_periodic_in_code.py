"""Periodic jobs that the code declares: they become rows, follow the code, and go with it."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from pytest_django import Settings

from jobs import periodic
from jobs.exceptions import BadValue
from jobs.models import Schedule
from jobs.timetable import declarations, schedules
from tests.support.queue.schedules import make_due, make_schedule

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declarations, "_declared", {})


def stored(name: str) -> Any:
    return Schedule.objects.get(pk=name)


def test_a_declared_schedule_becomes_a_row_and_fires() -> None:
    periodic("work.record", {"log": "x"}, cron="* * * * *", tz="Asia/Tokyo", name="noted", catch_up="all")
    schedules.sync_declared()
    row = stored("noted")
    assert (row.source, row.type, row.payload) == ("code", "work.record", {"log": "x"})
    assert (row.cron, row.timezone, row.catch_up) == ("* * * * *", "Asia/Tokyo", "all")
    make_due("noted")
    assert len(schedules.fire_due()) == 1


def test_without_a_zone_it_is_the_sites_and_without_a_name_the_types(settings: Settings) -> None:
    settings.TIME_ZONE = "America/Lima"
    periodic("tests.noop", cron="0 3 * * *")
    schedules.sync_declared()
    assert stored("tests.noop").timezone == "America/Lima"


def test_a_change_in_the_code_changes_the_row_and_its_next_firing() -> None:
    periodic("tests.noop", cron="0 3 1 1 *")
    schedules.sync_declared()
    before = stored("tests.noop").next_at
    declarations._declared.clear()
    periodic("tests.noop", cron="* * * * *")
    schedules.sync_declared()
    assert stored("tests.noop").next_at < before
    make_due("tests.noop")
    declarations._declared.clear()
    periodic("tests.noop", cron="* * * * *", priority=3)
    schedules.sync_declared()  # its ticks are the same: what is due stays due
    assert len(schedules.fire_due()) == 1


def test_taken_out_of_the_code_it_fires_no_more_and_put_back_it_does() -> None:
    periodic("tests.noop", cron="* * * * *")
    schedules.sync_declared()
    make_due("tests.noop")
    own = declarations._declared.pop("tests.noop")
    assert schedules.fire_due() == []  # also before anybody has synchronised
    schedules.sync_declared()
    row = stored("tests.noop")
    assert (row.removed, row.next_at) == (True, None)
    assert schedules.resume(["tests.noop"]) == []
    declarations._declared["tests.noop"] = own
    schedules.sync_declared()
    assert stored("tests.noop").next_at is not None


def test_a_pause_outlives_a_deployment() -> None:
    periodic("tests.noop", cron="* * * * *")
    schedules.sync_declared()
    schedules.pause(["tests.noop"])
    schedules.sync_declared()
    assert (stored("tests.noop").paused, stored("tests.noop").next_at) == (True, None)


def test_a_schedule_of_the_admin_keeps_its_name() -> None:
    make_schedule("tests.noop", cron="0 3 1 1 *")
    periodic("tests.noop", cron="* * * * *")
    schedules.sync_declared()
    assert (stored("tests.noop").source, stored("tests.noop").cron) == ("admin", "0 3 1 1 *")


@pytest.mark.parametrize(
    ("declaration", "code", "shown"),
    [
        ({"cron": "0 25 * * *"}, "bad_hour", r"tests\.noop: .*'25'"),
        ({"cron": "0 3 * * *", "tz": "Berlin"}, "not_a_time_zone", r"tests\.noop: .*'Berlin'"),
        ({"cron": "0 3 * * *", "catch_up": "maybe"}, "bad_catch_up", "skip, once, all"),
        ({"cron": "0 3 * * *", "priority": "urgent"}, "bad_priority", "'urgent'"),
        ({"cron": "0 3 * * *", "name": ""}, "bad_name", "''"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused_where_it_stands(
    declaration: dict[str, Any], code: str, shown: str
) -> None:
    with pytest.raises(BadValue, match=shown) as refusal:
        periodic("tests.noop", **declaration)
    assert refusal.value.code == code


def test_a_second_schedule_of_the_same_name_is_refused() -> None:
    periodic("tests.noop", cron="0 3 * * *")
    periodic("tests.noop", cron="0 3 * * *")  # the same module, imported once more
    with pytest.raises(BadValue) as refusal:
        periodic("tests.noop", cron="0 4 * * *")
    assert refusal.value.code == "name_taken"


def test_a_schedule_of_an_unknown_type_is_an_error_of_the_system_checks() -> None:
    periodic("tests.unheard_of", cron="0 3 * * *")
    assert [found.id for found in run_checks() if "tests.unheard_of" in found.msg] == ["jobs.E003"]
