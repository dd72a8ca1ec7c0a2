"""Here everything is really encoded."""

import pytest


@pytest.fixture(autouse=True)
def _encodes_once() -> None:
    """Instead of the fixture that takes chunks from the shelf."""
