"""The Content-Security-Policy of the video pages: nothing inline, and nothing from elsewhere but the storage."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpResponse

from videos import depot, storage

View = Callable[..., HttpResponse]

HEADER = "Content-Security-Policy"


def strict_policy(view: View) -> View:
    """Gives the answer a strict policy, unless it has one."""

    @functools.wraps(view)
    def answer(*arguments: Any, **named: Any) -> HttpResponse:
        response = view(*arguments, **named)
        response.headers.setdefault(HEADER, policy())
        return response

    return answer


def policy() -> str:
    files = f"'self'{_static_origin()}"
    media = f"{files}{_storage_origin()}"
    rules = {
        "default-src": "'none'",
        "script-src": files,
        "style-src": files,
        "worker-src": files,
        "img-src": f"{media} data:",
        "media-src": f"{media} blob:",  # hls.js feeds the player through a blob
        "connect-src": media,
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'self'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _storage_origin() -> str:
    """Where redirects to signed addresses lead."""
    kept = depot.current()
    example = storage.videos_folder() / "example"
    address = urlsplit((kept.signed_url(example, seconds=1) if kept else None) or "")
    return f" {address.scheme}://{address.netloc}" if address.netloc else ""


def _static_origin() -> str:
    address = urlsplit(settings.STATIC_URL or "")
    return f" {address.scheme or 'https'}://{address.netloc}" if address.netloc else ""
