"""What may be stored as a payload or a result: JSON that every supported database accepts, up to a limit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from jobs import conf
from jobs.exceptions import InvalidPayload

_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""The escape itself, not an escaped backslash before the letters u0000."""
_NO_DICTIONARY = "The payload must be a dictionary with text keys: the handler's keyword arguments."


def encode(value: Any, *, what: str = "payload") -> str:
    """The value as JSON text, or InvalidPayload with the reason."""
    try:
        text = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidPayload(
            f"The {what} is not JSON: {error}. Pass ids and plain values, not objects.", code="not_json"
        ) from None
    if "\\u0000" in text and _NUL.search(text):
        raise InvalidPayload(
            f"The {what} contains a NUL character, which databases do not store.", code="has_nul"
        )
    if "\\ud" in text and not _is_text(text):
        raise InvalidPayload(
            f"The {what} contains a lone surrogate, which is not text.", code="has_surrogate"
        )
    limit = conf.current().payload_max_bytes
    if len(text) > limit and len(text.encode()) > limit:
        raise InvalidPayload(
            f"The {what} has {len(text):,} bytes; the limit is {limit:,}. "
            "Store large data elsewhere, pass a reference.",
            code="too_large",
        )
    return text


def _is_text(text: str) -> bool:
    """A lone surrogate is valid for json.dumps but not for PostgreSQL."""
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def storable(value: object) -> str:
    """Any text as one that every supported database accepts: without NUL and without lone surrogates."""
    text = "" if value is None else str(value)
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def merge(payload: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The payload with the keyword arguments added."""
    if payload is not None and not isinstance(payload, Mapping):
        raise InvalidPayload(_NO_DICTIONARY, code="not_a_dictionary")
    return {**(payload or {}), **arguments}


def encode_payload(payload: Any) -> str:
    if not isinstance(payload, Mapping) or not all(isinstance(key, str) for key in payload):
        raise InvalidPayload(_NO_DICTIONARY, code="not_a_dictionary")
    return encode(dict(payload))
