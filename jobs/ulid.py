"""Sortable 26-character identifiers (ULID): 48 bits of milliseconds, then 80 bits of chance."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time

PATTERN = "[0-9A-HJKMNP-TV-Z]{26}"
_WHOLE = re.compile(PATTERN)
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _CROCKFORD for second in _CROCKFORD]
"""Ten bits at a time as two digits; base64.b32encode takes several times as long."""

_lock = threading.Lock()
_last_ms = 0
_last_tail = 0


def is_ulid(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None


def new_ulid() -> str:
    return new_ulids(1)[0]


def new_ulids(count: int) -> list[str]:
    """Identifiers in ascending order, also across calls of this process (FIFO within one instant)."""
    global _last_ms, _last_tail
    with _lock:
        now = time.time_ns() // 1_000_000
        if now > _last_ms:
            # The top bit stays clear, so that a batch can count up without overflow.
            _last_ms, _last_tail = now, int.from_bytes(os.urandom(10), "big") >> 1
        ms, first = _last_ms, _last_tail + 1
        _last_tail += count
    head = _head(ms)
    return [head + _tail(first + offset) for offset in range(count)]


def derived_ulid(parent: str, key: str) -> str:
    """The same identifier for the same parent and key, every time."""
    digest = hashlib.sha256(f"{parent}\0{key}".encode()).digest()
    return parent[:10] + _tail(int.from_bytes(digest[:10], "big"))


def ulid_floor(unix_seconds: float) -> str:
    """Smaller than every identifier made at or after this time."""
    return _head(max(0, int(unix_seconds * 1000))) + "0" * 16


def _head(ms: int) -> str:
    # 50 bits as ten base-32 digits: the two bits above the 48 are zero.
    return "".join([_PAIRS[ms >> shift & 1023] for shift in (40, 30, 20, 10, 0)])


def _tail(value: int) -> str:
    high, low = value >> 40, value & 0xFF_FFFF_FFFF  # small integers are faster
    return (
        _PAIRS[high >> 30]
        + _PAIRS[high >> 20 & 1023]
        + _PAIRS[high >> 10 & 1023]
        + _PAIRS[high & 1023]
        + _PAIRS[low >> 30]
        + _PAIRS[low >> 20 & 1023]
        + _PAIRS[low >> 10 & 1023]
        + _PAIRS[low & 1023]
    )
