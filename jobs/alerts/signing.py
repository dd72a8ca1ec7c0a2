"""The signature of an alert: HMAC-SHA256 over the moment and the body; neither can be changed, nor replayed late."""

from __future__ import annotations

import hashlib
import hmac

HEADER = "X-Sprocket-Signature"


def sign(body: bytes, *, secret: str, at: int) -> str:
    """`t=<seconds since 1970>,v1=<hexadecimal digest of "<t>.<body>">`"""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"
