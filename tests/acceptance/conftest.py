"""Tests of encoding: without the shelf."""

import pytest


@pytest.fixture(autouse=True)
def _shelf() -> None:
    """Overrides the fixture that takes chunks from the shelf."""
