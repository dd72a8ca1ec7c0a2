"""Bodies that are not the contract. Always a 4xx that names the field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobs.models import Job, Worker
from tests.support.queue.actors import stored
from tests.support.remote.remote_client import RemoteClient, enqueue_remote, good, refused
from tests.support.remote.remote_fixtures import far as far  # fixtures
from tests.support.remote.remote_fixtures import job as job
from tests.support.remote.remote_fixtures import remote_type as remote_type

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("body", [[], "text", 1, None, True])
def test_a_body_that_is_no_object_is_refused(far: RemoteClient, body: Any) -> None:
    assert refused(far.send("heartbeat", json.dumps(body)), 422, "invalid")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("percent", -1), ("percent", 101), ("percent", -0.001), ("percent", 100.001), ("percent", "50")),
        *(
            ("percent", None),
            ("percent", True),
            ("percent", [1]),
            ("step", 5),
            ("step", None),
            ("step", "x" * 1001),
        ),
        *(
            ("token", 0),
            ("token", -1),
            ("token", 2**63),
            ("token", "1"),
            ("token", 1.5),
            ("token", None),
            ("token", True),
        ),
        *(("colour", "red"), ("worker_id", "x"), ("job_id", "x")),
    ],
)
def test_progress_that_is_none_is_refused(
    far: RemoteClient, job: dict[str, Any], field: str, value: Any
) -> None:
    assert refused(far.report("progress", job, **{field: value}), 422, "invalid").startswith(f"{field}: ")
    assert stored(job["job_id"]).progress_percent == 0


@pytest.mark.parametrize("percent", [0, 100, 0.5, 99.999])
def test_progress_between_nothing_and_all_is_stored(
    far: RemoteClient, job: dict[str, Any], percent: float
) -> None:
    good(far.report("progress", job, percent=percent))
    assert stored(job["job_id"]).progress_percent == percent


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            ("slots", 0),
            ("slots", -5),
            ("slots", 257),
            ("slots", 2**70),
            ("slots", "3"),
            ("slots", 1.5),
            ("slots", True),
        ),
        *(
            ("types", "here.remote"),
            ("types", [1]),
            ("types", [""]),
            ("types", ["x" * 101]),
            ("types", ["x"] * 501),
        ),
        *(("limit", 5), ("idempotency_key", "x")),
    ],
)
def test_a_claim_that_is_none_is_refused(far: RemoteClient, field: str, value: Any) -> None:
    enqueue_remote()
    assert refused(far.ask(**{field: value}), 422, "invalid").startswith(field)
    assert not Job.objects.leased().exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("status", "disabled"), ("status", None), ("status", 1), ("concurrency", 0), ("concurrency", -1)),
        *(("concurrency", 257), ("version", 1), ("version", "x" * 51), ("capabilities", "gpu")),
        *(
            *(("capabilities", ["x" * 101]), ("capabilities", {"x" * 101: True})),
            *(("capabilities", {"codecs": [["h264"]]}), ("capabilities", {"codecs": [{}]})),
            *(("capabilities", {"notes": "x" * 10_240}), ("capabilities", {"a": "b\0c"})),
            ("metadata", []),
            ("metadata", "x"),
            ("running", {}),
            ("running", ["x"]),
        ),
        *(("running", [{"job_id": "x", "token": 0}]), ("running", [{"job_id": "x"}])),
        *(("running", [{"job_id": "x" * 27, "token": 1}]), ("running", [{"job_id": "x", "token": 1}] * 1001)),
        *(("disabled", False), ("host", "x"), ("pid", 1)),
    ],
)
def test_a_heartbeat_that_is_none_is_refused(far: RemoteClient, field: str, value: Any) -> None:
    before = Worker.objects.values("concurrency", "version", "capabilities", "metadata").get()
    answer = far.send("heartbeat", {"status": "idle", field: value})
    assert refused(answer, 422, "invalid").startswith(field)
    assert Worker.objects.values("concurrency", "version", "capabilities", "metadata").get() == before


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            ("message", ""),
            ("message", None),
            ("message", "x" * 100_001),
            ("type", "x" * 201),
            ("permanent", "yes"),
        ),
        *(("permanent", 1), ("retry_in_seconds", -1), ("retry_in_seconds", 1e12), ("retry_in_seconds", "60")),
        *(("traceback", ["x"]), ("attempt", 1), ("counted", "no"), ("counted", 0), ("counted", None)),
    ],
)
def test_a_failure_that_is_none_is_refused(
    far: RemoteClient, job: dict[str, Any], field: str, value: Any
) -> None:
    assert refused(far.report("fail", job, **{field: value}), 422, "invalid").startswith(f"{field}: ")
    assert stored(job["job_id"]).status == "processing"


def test_many_wrong_fields_are_named_up_to_a_few(far: RemoteClient) -> None:
    detail = refused(far.send("heartbeat", {f"wrong{n}": n for n in range(50)}), 422)
    assert "and 45 more" in detail
    assert len(detail) < 1000
