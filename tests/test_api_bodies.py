"""Bodies that somebody made up: too large, too deep, not JSON, not the contract. Always a 4xx that names the field."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIRequest
from hypothesis import given
from hypothesis import strategies as st

from jobs.api.bodies import DEEPEST, Bounded, depth, parse
from jobs.models import Job, Worker
from jobs.refusal import Refusal
from tests.actors import stored
from tests.conftest import Declare
from tests.remote_client import REMOTE, RemoteClient, enqueue_remote, good, new_remote, refused

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _remote_type(declare: Declare) -> None:
    declare(REMOTE, remote=True)


@pytest.fixture
def far() -> RemoteClient:
    return new_remote("far-away")


@pytest.fixture
def job(far: RemoteClient) -> dict[str, Any]:
    enqueue_remote()
    return far.claim_one()


def metadata_of(size: int) -> dict[str, str]:
    """So many bytes as JSON."""
    empty = len(json.dumps({"a": ""}, separators=(",", ":")))
    return {"a": "x" * (size - empty)}


# -- size --------------------------------------------------------------------------------------------------------------


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
    assert "not JSON" in refused(far.send(path, b"x" * limit), 422)
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


# -- JSON --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]]", "nothing", "{'a': 1}", '{"a": 1,}', '"open', "\x00", "{}{}"),
        *(b"\xff\xfe{\x00}\x00", b"\xc3\x28", "[1e5,]", "9" * 5000),
    ],
)
def test_what_is_not_json_is_refused(far: RemoteClient, text: Any) -> None:
    assert "body: This is not JSON" in refused(far.send("heartbeat", text), 422, "invalid")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("place", ["percent", "result", "metadata"])
def test_numbers_that_are_none_are_refused(
    far: RemoteClient, job: dict[str, Any], number: str, place: str
) -> None:
    token = job["token"]
    sent = {
        "percent": ("progress", f'{{"token": {token}, "percent": {number}}}'),
        "result": ("complete", f'{{"token": {token}, "result": [{number}]}}'),
        "metadata": ("", f'{{"status": "idle", "metadata": {{"a": {number}}}}}'),
    }
    verb, text = sent[place]
    path = f"jobs/{job['job_id']}/{verb}" if verb else "heartbeat"
    assert f"{number} is not a number" in refused(far.send(path, text), 422)


@pytest.mark.parametrize("place", ["percent", "result", "metadata"])
def test_a_number_too_large_for_a_float_is_refused(
    far: RemoteClient, job: dict[str, Any], place: str
) -> None:
    token = job["token"]
    sent = {
        "percent": ("progress", f'{{"token": {token}, "percent": 1e999}}'),
        "result": ("complete", f'{{"token": {token}, "result": [1e999]}}'),
        "metadata": ("", '{"status": "idle", "metadata": {"a": 1e999}}'),
    }
    verb, text = sent[place]
    path = f"jobs/{job['job_id']}/{verb}" if verb else "heartbeat"
    assert refused(far.send(path, text), 422).startswith(f"{place}: ")


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("levels", [DEEPEST + 1, 1_000, 8_000])
def test_deep_nesting_is_refused(far: RemoteClient, job: dict[str, Any], opening: str, levels: int) -> None:
    closing = "]" if opening == "[" else "}"
    nested = opening * levels + "1" + closing * levels
    text = f'{{"token": {job["token"]}, "result": {nested}}}'
    assert "nested deeper" in refused(far.send(f"jobs/{job['job_id']}/complete", text), 422)
    assert "nested deeper" in refused(far.send("heartbeat", opening * levels), 422)


def test_depth_does_not_count_what_stands_in_strings() -> None:
    assert depth('{"a": "[[[[", "b\\"[[": ["\\\\", "]"]}') == 2
    assert parse(json.dumps({"a": "[" * 1000}).encode()) == {"a": "[" * 1000}


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_every_value_that_is_not_too_deep_is_read_as_it_is(value: Any) -> None:
    text = json.dumps(value)
    if depth(text) <= DEEPEST:
        assert parse(text.encode()) == value


@pytest.mark.parametrize("text", [r"a\u0000b", r"\ud800"])
@pytest.mark.parametrize("place", ["types", "capabilities", "metadata", "version", "result"])
def test_characters_that_no_database_stores_are_refused(
    far: RemoteClient, job: dict[str, Any], text: str, place: str
) -> None:
    if place == "result":
        answer = far.send(
            f"jobs/{job['job_id']}/complete", f'{{"token": {job["token"]}, "result": {{"a": "{text}"}}}}'
        )
    else:
        value = {"metadata": f'{{"{text}": 1}}', "version": f'"{text}"'}.get(place, f'["{text}"]')
        answer = far.send("heartbeat", f'{{"status": "idle", "{place}": {value}}}')
    assert refused(answer, 422, "invalid").startswith(place)


def test_a_body_of_another_kind_is_refused(far: RemoteClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        answer = far._client.generic(
            "POST", "/api/worker/heartbeat", '{"status": "idle"}', kind, headers={"X-Worker-API-Key": far.key}
        )
        assert refused(answer, 415, "not_json")


def test_no_body_at_all_is_a_body_without_its_fields(far: RemoteClient) -> None:
    assert refused(far.send("heartbeat", b""), 422, "invalid")


# -- the contract ------------------------------------------------------------------------------------------------------


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
        *(("concurrency", 257), ("version", 1), ("version", "x" * 51), ("capabilities", {"gpu": True})),
        *(
            ("capabilities", ["x" * 101]),
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
    assert "and 46 more" in detail
    assert len(detail) < 1000


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
