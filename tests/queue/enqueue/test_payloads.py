"""What may be a payload: JSON that every database stores, up to a limit. All else is refused before it is written."""

import json
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from jobs import InvalidPayload, enqueue, enqueue_many, lifecycle
from jobs.models import Job, Status
from jobs.payloads import encode_payload
from tests.support.queue.actors import claim_one, status_of, stored

pytestmark = pytest.mark.django_db


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"in": value}
    return value


REFUSED: dict[str, tuple[Any, str]] = {
    "an object": ({"x": object()}, "not_json"),
    "a set": ({"x": {1}}, "not_json"),
    "bytes": ({"x": b"1"}, "not_json"),
    "NaN": ({"x": float("nan")}, "not_json"),
    "infinity": ({"x": [float("-inf")]}, "not_json"),
    "bottomless": (nested(100_000), "not_json"),
    "NUL": ({"x": "a\0b"}, "has_nul"),
    "NUL in a key": ({"x": {"a\0b": 1}}, "has_nul"),
    "NUL after a backslash": ({"x": "\\\0"}, "has_nul"),
    "lone surrogate": ({"x": "a\ud800b"}, "has_surrogate"),
    "lone surrogate in a key": ({"x": {"\udfff": 1}}, "has_surrogate"),
    "surrogates in the wrong order": ({"x": "\ude00\ud83d"}, "has_surrogate"),
    "a number as a key": ({7: 1}, "not_a_dictionary"),
    "a list": ([1], "not_a_dictionary"),
    "an empty list": ([], "not_a_dictionary"),
    "text": ("x", "not_a_dictionary"),
    "a number": (0, "not_a_dictionary"),
}


@pytest.mark.parametrize(("payload", "code"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_stored_is_refused_and_nothing_is_written(payload: Any, code: str) -> None:
    with pytest.raises(InvalidPayload) as refusal:
        enqueue("tests.noop", payload)
    assert refusal.value.code == code
    with pytest.raises(InvalidPayload) as refusal:
        enqueue_many("tests.noop", [{"fine": 1}, payload])
    assert refusal.value.code == code
    assert not Job.objects.exists()


ACCEPTED: dict[str, dict[str, Any]] = {
    "empty": {},
    "plain": {"a": 1, "b": 2.5, "c": None, "d": True, "e": [1, [2]], "f": {"g": "h"}},
    "languages": {"größe": "日本語 שלום 🙂"},
    "looks like NUL": {"x": "\\u0000", "\\u0000": 1},
    "looks like a surrogate": {"x": "\\ud800"},
    "quotes and percent": {"x": "'\"%s%%\\"},
    "large number": {"x": 2**70},
    "names of options": {"priority": "x", "delay": "y", "unique_key": "z", "payload": 1, "type_name": 2},
}


@pytest.mark.parametrize("payload", ACCEPTED.values(), ids=ACCEPTED)
def test_whatever_is_json_arrives_as_it_was_given(payload: dict[str, Any]) -> None:
    job = enqueue("tests.noop", payload)
    assert stored(job).payload == payload
    assert claim_one().payload == payload


def test_any_mapping_will_do() -> None:
    proxy = types.MappingProxyType({"a": 1})
    first, (second,) = enqueue("tests.noop", proxy), enqueue_many("tests.noop", [proxy])
    assert stored(first).payload == stored(second).payload == {"a": 1}


def test_the_limit_is_a_number_of_bytes_of_json(settings: Settings) -> None:
    settings.JOBS = {"PAYLOAD_MAX_BYTES": 100}
    fits = {"x": "y" * (100 - len('{"x":""}'))}
    assert stored(enqueue("tests.noop", fits)).payload == fits
    with pytest.raises(InvalidPayload, match=r"\b101\b.*\b100\b") as refusal:
        enqueue("tests.noop", {"x": fits["x"] + "y"})
    assert refusal.value.code == "too_large"
    assert Job.objects.count() == 1


def test_by_default_a_quarter_of_a_mebibyte_fits() -> None:
    enqueue("tests.noop", {"x": "y" * (256 * 1024 - 10)})
    with pytest.raises(InvalidPayload):
        enqueue("tests.noop", {"x": "y" * 256 * 1024})


def test_a_result_that_cannot_be_stored_is_refused_and_the_job_goes_on() -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    for result, code in (
        (object(), "not_json"),
        (float("nan"), "not_json"),
        ("a\0b", "has_nul"),
        ("\ud800", "has_surrogate"),
        ("x" * 300_000, "too_large"),
    ):
        with pytest.raises(InvalidPayload) as refusal:
            lifecycle.complete(lease, result)
        assert refusal.value.code == code
    assert status_of(job) == Status.PROCESSING


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=5,
)


@given(payload=st.dictionaries(st.text(st.characters()), json_values, max_size=3))
def test_encoding_refuses_or_keeps_everything(payload: dict[str, Any]) -> None:
    try:
        text = encode_payload(payload)
    except InvalidPayload:
        bare = repr(payload)
        assert "\\x00" in bare or "\\ud" in bare
    else:
        assert json.loads(text) == json.loads(json.dumps(payload))
        json.dumps(payload, ensure_ascii=False).encode()
