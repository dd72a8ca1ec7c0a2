"""Job types: registered once, sensibly, and found in every installed app."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from jobs import JobContext, UnknownJobType, job_type, registry
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
    with pytest.raises(
        ValueError, match=r"'tests\.taken' is registered already, by tests\.queue\.enqueue\.test_registry"
    ):
        job_type("tests.taken")(another)
    assert registry.get("tests.taken").handler is handler


def test_the_same_function_may_be_registered_again_as_a_reload_does() -> None:
    job_type("tests.reloaded")(handler)
    job_type("tests.reloaded", concurrency=2)(handler)
    assert registry.get("tests.reloaded").concurrency == 2


@pytest.mark.parametrize(
    ("name", "policy", "complaint"),
    [
        ("", {}, "1 to 100 characters"),
        ("x" * 101, {}, "1 to 100 characters"),
        ("t", {"concurrency": 0}, "concurrency must be at least 1"),
        ("t", {"per_worker": 0}, "per_worker must be at least 1"),
        ("t", {"max_attempts": 0}, "max_attempts must be at least 1"),
        ("t", {"timeout": timedelta(0)}, "timeout must be a timedelta longer than zero"),
        ("t", {"timeout": 30}, "timeout must be a timedelta longer than zero"),
        ("t", {"memory_limit": 2**30}, "memory_limit needs isolate=True"),
        ("t", {"requires": "gpu"}, r"requires is a list of capabilities, such as \['gpu'\]"),
    ],
)
def test_nonsense_is_refused_where_it_is_written(name: str, policy: dict[str, Any], complaint: str) -> None:
    before = registry.all_types()
    with pytest.raises(ValueError, match=complaint):
        job_type(name, **policy)(handler)
    assert registry.all_types() == before


def test_a_handler_that_does_not_take_the_job_is_refused() -> None:
    with pytest.raises(ValueError, match="the handler takes the job as its first argument"):
        job_type("tests.deaf")(lambda: None)


def test_an_unknown_type_is_named_with_those_there_are() -> None:
    with pytest.raises(
        UnknownJobType, match=r"No job type is named 'tests\.nope'\. Registered: .*tests\.noop"
    ):
        registry.get("tests.nope")
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
    assert "does not fit the payload: got an unexpected keyword argument 'nam'" in problem
