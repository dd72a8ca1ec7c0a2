"""The lifecycle, driven at random and compared with a model after every step; every invariant holds all the time.

LIFECYCLE_EXAMPLES=2000 LIFECYCLE_STEPS=80 pytest tests/fuzz/test_lifecycle_machine.py runs longer, with new random
choices.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from jobs.models import Status
from tests.conftest import Declare
from tests.support.queue.lifecycle_machine import LIMIT, LIMITED, MADE, PLAIN, Lifecycle

LONGER = "LIFECYCLE_EXAMPLES" in os.environ

pytestmark = pytest.mark.django_db


def test_whatever_happens_the_lifecycle_agrees_with_its_model(declare: Declare, settings: Any) -> None:
    # In the model no time passes by itself, however slow the machine: nothing must fall due meanwhile.
    settings.JOBS = {"RECOVERY_GRACE": "1ms", "BACKOFF_BASE": "1h", "BACKOFF_CAP": "2h"}
    declare(PLAIN)
    declare(LIMITED, concurrency=LIMIT)
    declare(MADE, artifact=lambda payload: payload["id"] in Lifecycle.existing)
    Lifecycle.compared.clear()
    run_state_machine_as_test(Lifecycle, settings=profile())
    assert Lifecycle.compared.keys() == set(Status.values)


def profile() -> settings:
    """Bounded and always the same, unless somebody asks for more."""
    return settings(
        max_examples=int(os.environ.get("LIFECYCLE_EXAMPLES", "30")),
        stateful_step_count=int(os.environ.get("LIFECYCLE_STEPS", "40")),
        derandomize=not LONGER,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink] if LONGER else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
