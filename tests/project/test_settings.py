"""Settings: every way to write a value, and every wrong one named at start-up."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st

from jobs import conf
from jobs.alerts.wording import Kind
from jobs.conf import JobsSettings, find_problems, parse_duration
from tests.conftest import RunManage

UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "": 1}
WHOLE = ["max_attempts", "max_depth", "warn_depth", "submitter_rate", "payload_max_bytes", "error_max_chars"]


DURATION_CODES = {"not_a_duration", "unknown_unit", "duration_out_of_range"}


def is_valid(value: Any, *, key: str = "RETENTION") -> bool:
    return find_problems({key: value}) == []


@given(st.integers(1, 30_000), st.sampled_from(sorted(UNITS)))
def test_a_number_and_a_unit_make_a_duration(number: int, unit: str) -> None:
    expected = timedelta(seconds=number * UNITS[unit])
    assert parse_duration(f"{number}{unit}") == expected
    assert parse_duration(f" {number} {unit} ") == expected


@given(st.timedeltas(timedelta(microseconds=1), timedelta(days=36_000)))
def test_a_timedelta_and_its_seconds_mean_the_same(duration: timedelta) -> None:
    assert parse_duration(duration) == duration
    assert abs(parse_duration(duration.total_seconds()) - duration) <= timedelta(microseconds=1)


@pytest.mark.parametrize(
    "value",
    [
        *(0, -1, 0.0, "0s", "-5m", timedelta(0), timedelta(seconds=-1)),
        *("banana", "", "5 parsecs", "5m30s", "1e3", "٣0x", "5M"),
        *(None, True, [], {}, b"5s", float("nan"), float("inf"), 10**400, timedelta.max, "9" * 400 + "d"),
    ],
)
def test_what_is_no_duration_is_refused(value: Any) -> None:
    (problem,) = find_problems({"RETENTION": value})
    assert (problem.setting, problem.code in DURATION_CODES) == ("RETENTION", True)
    assert problem.startswith("JOBS['RETENTION']")


@given(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.timedeltas())
)
def test_any_value_of_any_setting_is_either_read_or_refused_with_a_sentence(value: Any) -> None:
    for setting in fields(JobsSettings):
        for problem in find_problems({setting.name.upper(): value}):
            assert (problem.startswith("JOBS["), problem.code != "") == (True, True)


@pytest.mark.parametrize("value", [7, "7", " 7 ", "1_000"])
def test_a_whole_number_may_be_text(value: Any) -> None:
    assert all(is_valid(value, key=name.upper()) for name in WHOLE)


@pytest.mark.parametrize("value", [-1, "-1", 1.5, "1.5", "many", True, None, "", "1__0", "_1"])
def test_what_is_no_whole_number_or_below_the_minimum_is_refused(value: Any) -> None:
    assert not any(is_valid(value, key=name.upper()) for name in WHOLE)


def test_zero_is_refused_but_where_it_means_no_limit() -> None:
    assert [name for name in WHOLE if is_valid(0, key=name.upper())] == ["submitter_rate"]


@pytest.mark.parametrize(
    ("value", "meaning"),
    [(True, True), ("true", True), ("ON", True), (1, True), ("no", False), ("0", False), (False, False)],
)
def test_a_flag_has_many_spellings(settings: Any, value: Any, meaning: bool) -> None:
    settings.JOBS = {"SESSION_FEATURES": value}
    assert conf.current().session_features is meaning


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        ("all", {kind.value for kind in Kind}),
        ("worker_offline, breaker_opened,", {"worker_offline", "breaker_opened"}),
        (["worker_offline"], {"worker_offline"}),
        ({"all", "worker_offline"}, {kind.value for kind in Kind}),
    ],
)
def test_names_are_a_list_or_a_text_with_commas(settings: Any, value: Any, meaning: set[str]) -> None:
    settings.JOBS = {"ALERT_KINDS": value}
    assert conf.current().alert_kinds == meaning


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("worker_offlin", "unknown_name"),
        (["worker_offline", "nothing"], "unknown_name"),
        ("", "no_names"),
        ([], "no_names"),
        (None, "not_names"),
        ([7], "not_names"),
    ],
)
def test_names_that_nobody_knows_are_refused(value: Any, code: str) -> None:
    (problem,) = find_problems({"ALERT_KINDS": value})
    assert (problem.setting, problem.code) == ("ALERT_KINDS", code)


def test_what_is_no_flag_is_refused() -> None:
    assert not is_valid("maybe", key="SESSION_FEATURES")
    assert not is_valid(2, key="SESSION_FEATURES")


def test_an_unknown_key_gets_a_suggestion() -> None:
    (problem,) = find_problems({"CLAIM_DURATON": "5m"})
    assert (problem.setting, problem.code) == ("CLAIM_DURATON", "unknown_setting")
    assert problem.endswith("Did you mean CLAIM_DURATION?")


def test_an_unknown_key_that_resembles_nothing_gets_the_list() -> None:
    (problem,) = find_problems({"ZZZ": 1})
    assert problem.code == "unknown_setting"
    assert ", ".join(sorted(setting.name.upper() for setting in fields(JobsSettings))) in problem
    assert find_problems({7: 1}) != []


def test_every_problem_is_named_at_once() -> None:
    found = find_problems({"CLAIM_DURATION": "banana", "MAX_ATTEMPTS": 0, "COLOUR": "red"})
    assert [(problem.setting, problem.code) for problem in found] == [
        ("CLAIM_DURATION", "not_a_duration"),
        ("MAX_ATTEMPTS", "below_minimum"),
        ("COLOUR", "unknown_setting"),
    ]


def test_what_is_no_dictionary_is_refused() -> None:
    assert [problem.code for problem in find_problems(["CLAIM_DURATION"])] == ["not_a_dictionary"]


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"HEARTBEAT_INTERVAL": "20s", "CLAIM_DURATION": "30s"}, "above_half_the_claim"),
        ({"CLAIM_DURATION": "59s"}, "above_half_the_claim"),
        ({"HEARTBEAT_INTERVAL": "5m"}, "above_offline_threshold"),
        ({"BACKOFF_BASE": "2h"}, "above_backoff_cap"),
        ({"LIVE_HEARTBEAT": "6m"}, "too_long"),
        ({"LIVE_RECONNECT": "1h"}, "too_long"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(values: dict[str, str], code: str) -> None:
    (problem,) = find_problems(values)
    assert problem.code == code


def test_the_defaults_are_those_of_the_contract() -> None:
    minutes, default = timedelta(minutes=1), JobsSettings()
    assert find_problems({}) == []
    assert (default.claim_duration, default.stale_timeout) == (30 * minutes, 30 * minutes)
    assert (default.heartbeat_interval, default.offline_threshold) == (minutes / 2, 5 * minutes)
    assert (default.sweep_interval, default.recovery_grace, default.drain_timeout) == (
        minutes,
        2 * minutes,
        minutes / 2,
    )
    assert (default.backoff_base, default.backoff_cap) == (minutes / 6, 60 * minutes)
    assert (default.max_attempts, default.max_depth, default.warn_depth) == (3, 1_000_000, 10_000)
    assert (default.live_heartbeat, default.live_reconnect) == (minutes / 2, minutes / 20)
    assert (default.payload_max_bytes, default.retention) == (256 * 1024, timedelta(days=30))


def test_every_setting_says_what_it_is_for() -> None:
    assert [setting.name for setting in fields(JobsSettings) if not setting.metadata["help"]] == []


def test_a_changed_setting_counts_at_once(settings: Any) -> None:
    settings.JOBS = {"MAX_ATTEMPTS": 5}
    assert conf.current().max_attempts == 5
    settings.JOBS["MAX_ATTEMPTS"] = "6"
    assert conf.current().max_attempts == 6
    settings.JOBS = {}
    assert conf.current().max_attempts == 3


@pytest.mark.django_db
def test_without_any_settings_the_defaults_count(settings: Any) -> None:
    del settings.JOBS
    assert conf.current() == JobsSettings()
    assert [message for message in run_checks() if message.id == "jobs.E001"] == []


@pytest.mark.django_db
def test_reading_a_wrong_setting_raises_with_the_reason(settings: Any) -> None:
    settings.JOBS = {"CLAIM_DURATION": "banana"}
    with pytest.raises(ImproperlyConfigured, match="'banana'"):
        conf.current()
    (message,) = [message for message in run_checks() if message.id == "jobs.E001"]
    assert "jobs/conf.py" in str(message.hint)


@pytest.mark.parametrize("starts_python", [True])
@pytest.mark.django_db(transaction=True)
def test_a_wrong_environment_variable_is_refused_at_start_up(run_manage: RunManage) -> None:
    refused = run_manage("check", check=False, env={"JOBS_CLAIM_DURATION": "banana", "JOBS_MAX_ATEMPTS": "5"})
    assert refused.returncode == 1
    assert "JOBS['CLAIM_DURATION']: 'banana'" in refused.stderr
    assert "JOBS['MAX_ATEMPTS']" in refused.stderr
    assert "Did you mean MAX_ATTEMPTS?" in refused.stderr
    assert refused.stderr.count("jobs.E001") == 2
    assert "Traceback" not in refused.stderr
