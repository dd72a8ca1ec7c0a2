"""What a test needs and this machine may lack."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacking(what: str, missing: str) -> NoReturn:
    """Skips the test. Where SPROCKET_REQUIRE_<what> is 1, as in `.ci/run`, a skip would hide something: it fails."""
    variable = f"SPROCKET_REQUIRE_{what}"
    if os.environ.get(variable) == "1":
        pytest.fail(f"{variable}=1, but {missing}")
    pytest.skip(missing)
