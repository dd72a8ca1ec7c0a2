"""Fixtures of a site with one worker on another machine; a module has those that it imports."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Declare
from tests.support.remote.remote_client import REMOTE, RemoteClient, enqueue_remote, new_remote


@pytest.fixture(autouse=True)
def remote_type(declare: Declare) -> None:
    declare(REMOTE, remote=True)


@pytest.fixture
def far(remote_type: None) -> RemoteClient:
    return new_remote("far-away")


@pytest.fixture
def job(far: RemoteClient) -> dict[str, Any]:
    """Claimed by it."""
    enqueue_remote()
    return far.claim_one()
