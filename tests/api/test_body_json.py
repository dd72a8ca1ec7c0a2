"""Bodies that are not JSON, or none that can be stored: too deep, no numbers, no text. Always a 4xx."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.api.bodies import DEEPEST, depth, parse
from tests.support.remote.remote_client import RemoteClient, refused
from tests.support.remote.remote_fixtures import far as far  # fixtures
from tests.support.remote.remote_fixtures import job as job
from tests.support.remote.remote_fixtures import remote_type as remote_type

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]]", "nothing", "{'a': 1}", '{"a": 1,}', '"open', "\x00", "{}{}"),
        *(b"\xff\xfe{\x00}\x00", b"\xc3\x28", "[1e5,]", "9" * 5000),
    ],
)
def test_what_is_not_json_is_refused(far: RemoteClient, text: Any) -> None:
    assert refused(far.send("heartbeat", text), 422, "invalid").startswith("body: ")


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
    told = refused(far.send(path, text), 422, "invalid")
    assert (told.startswith("body: "), number in told) == (True, True)


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
    for path, body in ((f"jobs/{job['job_id']}/complete", text), ("heartbeat", opening * levels)):
        told = refused(far.send(path, body), 422, "invalid")
        assert told.startswith("body: ")
        assert re.search(rf"\b{DEEPEST}\b", told)


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


def test_no_body_at_all_is_a_body_without_its_fields(far: RemoteClient, job: dict[str, Any]) -> None:
    assert refused(far.send(f"jobs/{job['job_id']}/progress", b""), 422, "invalid")
    assert refused(far.send("progress", b""), 422, "invalid")
