"""tus 1.0 as far as it is text: headers in, values out, or a refusal that names the header."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from jobs.refusal import Refusal

VERSION = "1.0.0"
EXTENSIONS = "creation,termination,checksum,expiration"
ALGORITHMS = ("sha1", "sha256")
CHUNK = "application/offset+octet-stream"

LONGEST_METADATA = 8192
_NUMBER = re.compile(r"[0-9]{1,18}")
_KEY = re.compile(r"[!-+\--~]{1,100}")


def check_version(request: HttpRequest) -> None:
    if request.headers.get("Tus-Resumable") != VERSION:
        raise Refusal(
            412,
            "wrong_version",
            f"Send the header Tus-Resumable: {VERSION}, the only version spoken here.",
            headers={"Tus-Version": VERSION},
        )


def number(request: HttpRequest, header: str) -> int:
    given = request.headers.get(header, "")
    if not _NUMBER.fullmatch(given):
        raise Refusal(400, "invalid", f"{header} must be a whole number of bytes.")
    return int(given)


def read_metadata(header: str) -> dict[str, str]:
    """The pairs of Upload-Metadata: a key, and a text in base 64, which may be missing."""
    if len(header) > LONGEST_METADATA:
        raise Refusal(400, "invalid", f"Upload-Metadata has more than {LONGEST_METADATA:,} characters.")
    found: dict[str, str] = {}
    for pair in header.split(",") if header.strip() else ():
        key, _, encoded = pair.strip(" ").partition(" ")
        if not _KEY.fullmatch(key):
            raise Refusal(400, "invalid", "Upload-Metadata has a key that is empty or not plain ASCII.")
        if key in found:
            raise Refusal(400, "invalid", f"Upload-Metadata has {key} twice.")
        try:
            found[key] = base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, ValueError):
            raise Refusal(
                400, "invalid", f"Upload-Metadata: {key} is not a text (UTF-8) in base 64."
            ) from None
    return found


@dataclass
class Checksum:
    """What the bytes of one request must add up to."""

    expected: bytes
    digest: Any

    def update(self, block: bytes) -> None:
        self.digest.update(block)

    def matches(self) -> bool:
        return hmac.compare_digest(self.digest.digest(), self.expected)


def read_checksum(header: str | None) -> Checksum | None:
    if header is None:
        return None
    algorithm, _, encoded = header.partition(" ")
    if algorithm not in ALGORITHMS:
        raise Refusal(400, "invalid", f"Upload-Checksum: the algorithm is one of {', '.join(ALGORITHMS)}.")
    try:
        expected = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(400, "invalid", "Upload-Checksum: the checksum is not in base 64.") from None
    return Checksum(expected, hashlib.new(algorithm, usedforsecurity=False))
