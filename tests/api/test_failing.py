"""Failures that remote workers report: what an attempt costs, and what makes no sense."""

from __future__ import annotations

import pytest

from jobs.models import Job
from tests.conftest import Declare
from tests.support.remote.remote_client import REMOTE, RemoteClient, enqueue_remote, new_remote

pytestmark = pytest.mark.django_db


@pytest.fixture
def far(declare: Declare) -> RemoteClient:
    declare(REMOTE, remote=True)
    return new_remote()


def test_an_attempt_that_does_not_count_is_given_back(far: RemoteClient) -> None:
    enqueue_remote()
    answer = far.report("fail", far.claim_one(), message="not here", counted=False, retry_in_seconds=0)
    assert answer.status_code == 200
    assert Job.objects.get().attempt_number == 0


def test_what_does_not_count_cannot_be_permanent(far: RemoteClient) -> None:
    enqueue_remote()
    answer = far.report("fail", far.claim_one(), message="never", counted=False, permanent=True)
    assert answer.status_code == 422
    assert "permanent" in answer.json()["detail"]
    assert Job.objects.get().status == "processing"
