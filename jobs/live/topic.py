"""A topic: something whose state a page shows, and how to read it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.utils.safestring import SafeData

State = Mapping[str, Any]
"""Flat: what `data-live` refers to → a text, a number, a moment, true or false, None, or HTML (a SafeString)."""


@dataclass(frozen=True)
class Topic:
    name: str
    read: Callable[[], State]
    every: float = 0.5
    """Seconds between two readings, at least."""


def encode(state: State) -> dict[str, str]:
    """Each value as JSON; HTML is marked as such, so that no text is ever taken for it."""
    return {key: _encode(value) for key, value in state.items()}


def _encode(value: Any) -> str:
    marked = {"html": str(value)} if isinstance(value, SafeData) else value
    return json.dumps(marked, cls=DjangoJSONEncoder, ensure_ascii=False)


def version_of(encoded: Mapping[str, str]) -> str:
    """The same for the same state, in every process."""
    text = "\n".join(f"{key}={encoded[key]}" for key in sorted(encoded))
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """What turns one state into the other; a key that is gone becomes null."""
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    return changed | {key: "null" for key in before if key not in after}
