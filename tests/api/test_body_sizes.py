"""How large a body may be, and that no more of it is read. Always a 4xx that says so."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIRequest

from jobs.api.bodies import Bounded
from jobs.models import Worker
from jobs.refusal import Refusal
from tests.support.remote.remote_client import RemoteClient, good, refused
from tests.support.remote.remote_fixtures import far as far  # fixtures
from tests.support.remote.remote_fixtures import job as job
from tests.support.remote.remote_fixtures import remote_type as remote_type

pytestmark = pytest.mark.django_db


def metadata_of(size: int) -> dict[str, str]:
    """So many bytes as JSON."""
    empty = len(json.dumps({"a": ""}, separators=(",", ":")))
    return {"a": "x" * (size - empty)}


def test_ten_kilobytes_of_metadata_are_fine_and_one_byte_more_is_not(far: RemoteClient) -> None:
    far.heartbeat(metadata=metadata_of(10_240))
    assert len(json.dumps(Worker.objects.get().metadata, separators=(",", ":"))) == 10_240
    answer = far.send("heartbeat", {"status": "idle", "metadata": metadata_of(10_241)})
    detail = refused(answer, 422, "invalid")
    assert detail.startswith("metadata: ")
    assert "10,241 bytes" in detail
    assert len(json.dumps(Worker.objects.get().metadata, separators=(",", ":"))) == 10_240


def test_the_size_of_metadata_is_that_of_its_bytes(far: RemoteClient) -> None:
    answer = far.send("heartbeat", {"status": "idle", "metadata": {"a": "ü" * 6_000}})
    assert "metadata" in refused(answer, 422)


def test_ten_kilobytes_of_capabilities_and_no_more(far: RemoteClient) -> None:
    name = "c" * 97  # 100 bytes with its quotes and its comma
    far.heartbeat(capabilities=[f"{number:03}{name[3:]}" for number in range(102)])
    answer = far.send("heartbeat", {"status": "idle", "capabilities": [name] * 103})
    assert refused(answer, 422).startswith("capabilities: ")


@pytest.mark.parametrize(
    ("verb", "limit"), [("progress", 16 * 1024), ("release", 16 * 1024), ("fail", 1024 * 1024)]
)
def test_a_body_over_its_limit_is_refused_before_it_is_parsed(
    far: RemoteClient, job: dict[str, Any], verb: str, limit: int
) -> None:
    path = f"jobs/{job['job_id']}/{verb}"
    assert refused(far.send(path, b"x" * limit), 422, "invalid").startswith("body: ")
    assert refused(far.send(path, b"x" * (limit + 1)), 413, "too_large")


def test_a_result_may_be_as_large_as_a_payload(far: RemoteClient, job: dict[str, Any], settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "PAYLOAD_MAX_BYTES": 2000}
    assert refused(far.report("complete", job, result="x" * 1999), 422).startswith("result: ")
    assert refused(far.report("complete", job, result="x" * 8000), 413)
    good(far.report("complete", job, result="x" * 1998))


class Endless(io.RawIOBase):
    """A body without a length that never ends, as a chunked request may be."""

    taken = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        assert size >= 0, "read without a bound"
        self.taken += size
        return b"[" * size


def test_no_more_than_the_limit_is_read_of_a_body_that_does_not_say_its_length() -> None:
    body = Endless()
    request = WSGIRequest(
        {"REQUEST_METHOD": "POST", "wsgi.input": io.BytesIO(), "CONTENT_TYPE": "application/json"}
    )
    request._stream = body  # type: ignore[assignment]
    request._stream = Bounded(request, 1000)  # type: ignore[assignment]
    with pytest.raises(Refusal) as caught:
        _ = request.body
    assert caught.value.status == 413
    assert body.taken == 1001


def test_who_is_not_known_is_not_read(far: RemoteClient) -> None:
    far.key = "A" * 43
    assert refused(far.send("heartbeat", b"x" * 1_000_000), 401, "key_unknown")
    assert refused(far.send("heartbeat", b"no json"), 401, "key_unknown")


@pytest.mark.parametrize("length", ["-1", "x", "9" * 30])
def test_a_length_that_is_none_is_refused(far: RemoteClient, length: str) -> None:
    answer = far._client.post(
        "/api/worker/heartbeat",
        "{}",
        content_type="application/json",
        headers={"X-Worker-API-Key": far.key},
        CONTENT_LENGTH=length,
    )
    assert answer.status_code in (400, 413)
    assert refused(answer, answer.status_code)
