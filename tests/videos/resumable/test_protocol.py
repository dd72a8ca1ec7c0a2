"""The headers of tus, whatever is in them: values, or a refusal that names the header; never anything else."""

from __future__ import annotations

import contextlib
from base64 import b64encode
from hashlib import sha1, sha256

import pytest
from django.test import RequestFactory
from hypothesis import example, given
from hypothesis import strategies as st

from jobs.refusal import Refusal
from videos.resumable import protocol

KEYS = st.from_regex(r"[!-+\--~]{1,30}", fullmatch=True)


@given(st.dictionaries(KEYS, st.text(max_size=50), max_size=8))
def test_metadata_are_read_as_they_were_written(metadata: dict[str, str]) -> None:
    header = ",".join(f"{key} {b64encode(value.encode()).decode()}" for key, value in metadata.items())
    assert protocol.read_metadata(header) == metadata


@given(st.text(max_size=200))
@example(",,,")
@example("a\x00b YQ==")
@example("a YQ==, b")
def test_rubbish_is_refused_or_read(header: str) -> None:
    with contextlib.suppress(Refusal):
        assert all(key and " " not in key for key in protocol.read_metadata(header))


@given(st.text(max_size=100))
@example("sha1 2jmj7l5rSw0yVb/vlWAYkK/YBwk=")
def test_checksums_are_refused_or_checked(header: str) -> None:
    with contextlib.suppress(Refusal):
        checksum = protocol.read_checksum(header)
        assert checksum is not None
        checksum.update(b"")
        checksum.matches()


@given(st.binary(max_size=100), st.sampled_from([("sha1", sha1), ("sha256", sha256)]))
def test_a_checksum_matches_its_bytes_and_no_others(data: bytes, algorithm: tuple[str, type]) -> None:
    name, digest = algorithm
    header = f"{name} {b64encode(digest(data).digest()).decode()}"
    for sent, right in ((data, True), (data + b"x", False)):
        checksum = protocol.read_checksum(header)
        assert checksum is not None
        checksum.update(sent)
        assert checksum.matches() is right


@given(st.text(max_size=40))
@example("1_000")
@example("1\n")
@example("²")
@example("-0")
def test_numbers_are_digits_and_nothing_else(given_value: str) -> None:
    request = RequestFactory().get("/", headers={"Upload-Length": given_value})
    if given_value.isascii() and given_value.isdecimal() and len(given_value) <= 18:
        assert protocol.number(request, "Upload-Length") == int(given_value)
    else:
        with pytest.raises(Refusal, match="Upload-Length"):
            protocol.number(request, "Upload-Length")
