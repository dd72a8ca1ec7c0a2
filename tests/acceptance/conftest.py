"""What holds in every test of this folder."""

import pytest
from pytest_django import Settings

from tests.support.remote.remote_client import SECRET


@pytest.fixture(autouse=True)
def _up_for_long(settings: Settings) -> None:
    """The site and its database were started long ago, so expiry counts."""
    settings.JOBS = {**settings.JOBS, "RECOVERY_GRACE": "1ms"}


@pytest.fixture
def open_to_registration(settings: Settings) -> None:
    settings.JOBS = {**settings.JOBS, "WORKER_ADMIN_SECRET": SECRET}
