"""Job types: registered once, sensibly, and found in every installed app."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from jobs import JobContext, UnknownJobType, job_type, registry
from jobs.exceptions import BadValue
from tests.conftest import Declare

pytestmark = pytest.mark.usefixtures("declare")  # it puts the registry back afterwards


def handler(job: JobContext, *, name: str = "") -> None:
    """Does nothing."""


def another(job: JobContext) -> None:
    """Does nothing either."""


def test_the_decorator_gives_the_function_back_and_keeps_its_policy() -> None:
    decorated = job_type(
        "tests.policy", concurrency=3, max_attempts=5, timeout=timedelta(minutes=10), requires=["gpu", "disk"]
    )(handler)
    assert decorated is handler
    kind = registry.get("tests.policy")
    assert (kind.handler, kind.concurrency, kind.max_attempts) == (handler, 3, 5)
    assert kind.requires == {"gpu", "disk"}


def test_two_functions_cannot_share_a_name() -> None:
    job_type("tests.taken")(handler)
    with pytest.raises(BadValue, match=re.escape(__name__)) as refusal:
        job_type("tests.taken")(another)
    assert refusal.value.code == "name_taken"
    assert registry.get("tests.taken").handler is handler


def test_the_same_function_may_be_registered_again_as_a_reload_does() -> None:
    job_type("tests.reloaded")(handler)
    job_type("tests.reloaded", concurrency=2)(handler)
    assert registry.get("tests.reloaded").concurrency == 2


@pytest.mark.parametrize(
    ("name", "policy", "code"),
    [
        ("", {}, "bad_name"),
        ("x" * 101, {}, "bad_name"),
        ("t", {"concurrency": 0}, "bad_concurrency"),
        ("t", {"per_worker": 0}, "bad_per_worker"),
        ("t", {"max_attempts": 0}, "bad_max_attempts"),
        ("t", {"timeout": timedelta(0)}, "bad_timeout"),
        ("t", {"timeout": 30}, "bad_timeout"),
        ("t", {"memory_limit": 2**30}, "not_isolated"),
        ("t", {"requires": "gpu"}, "bad_requires"),
    ],
)
def test_nonsense_is_refused_where_it_is_written(name: str, policy: dict[str, Any], code: str) -> None:
    before = registry.all_types()
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 (its code is looked at)
        job_type(name, **policy)(handler)
    assert isinstance(refusal.value, BadValue)
    assert refusal.value.code == code
    assert registry.all_types() == before


def test_a_handler_that_does_not_take_the_job_is_refused() -> None:
    with pytest.raises(BadValue) as refusal:
        job_type("tests.deaf")(lambda: None)
    assert refusal.value.code == "bad_handler"


def test_an_unknown_type_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownJobType, match=r"tests\.nope.*tests\.noop") as refusal:
        registry.get("tests.nope")
    assert (refusal.value.name, refusal.value.code) == ("tests.nope", "unknown_job_type")
    assert refusal.value.known == [kind.name for kind in registry.all_types()]
    assert registry.find("tests.nope") is None


def test_job_types_of_every_installed_app_are_discovered_at_start_up() -> None:
    names = [kind.name for kind in registry.all_types()]
    assert names == sorted(names)
    assert {"tests.noop", "demo.count"} <= set(names)


def test_a_payload_that_does_not_fit_the_handler_is_explained(declare: Declare) -> None:
    kind = declare("tests.strict", handler)
    assert kind.arguments_problem({}) is None
    assert kind.arguments_problem({"name": "x"}) is None
    problem = kind.arguments_problem({"nam": "x"})
    assert problem is not None
    assert "'nam'" in problem
