"""Fixtures that say whether expiry counts: by itself that depends on when the test's database server was started."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def without_grace(settings: Any) -> None:
    """A lease is dead from the moment that it expires."""
    settings.JOBS = {**settings.JOBS, "RECOVERY_GRACE": "1ms"}


@pytest.fixture
def within_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """As just after a restart: an expired lease that nobody has ended is alive."""
    monkeypatch.setattr("jobs.lifecycle.recovering.expiry_counts", lambda: False)
