"""Serve one file of a generation: the right type, byte ranges, and caching for ever, since it never changes.

Where a bucket keeps it, media and pictures are a redirect to a signed address. Playlists and other texts come from the
site itself: what they name, they name relative to their own address, and each of it is asked about in its turn.
"""

from __future__ import annotations

import hashlib
import io
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from jobs.file_responses import respond

if TYPE_CHECKING:
    from videos.depot import Depot

TYPES = {
    ".m3u8": "application/vnd.apple.mpegurl",
    ".mp4": "video/mp4",
    ".m4s": "video/iso.segment",
    ".jpg": "image/jpeg",
    ".vtt": "text/vtt; charset=utf-8",
}
TEXTS = (".m3u8", ".vtt")
YEAR = 365 * 86400


def serve(request: HttpRequest, path: Path, *, public: bool) -> HttpResponseBase:
    """The file, or the part of it that was asked for. The path comes from storage.py, never from the request."""
    try:
        file = path.open("rb")
    except OSError:
        return _missing()
    stat = path.stat()
    response = respond(
        request,
        file,
        size=stat.st_size,
        tag=f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"',
        changed=stat.st_mtime,
        content_type=TYPES[path.suffix],
    )
    return _cached(response, public=public)


def serve_kept(
    request: HttpRequest, kept: Depot, path: Path, *, published: datetime, public: bool, seconds: int
) -> HttpResponseBase:
    """The same of a file that a storage keeps; a signed address is valid for so many seconds. Raises StorageDown."""
    method = request.method or "GET"
    if path.suffix not in TEXTS and (address := kept.signed_url(path, seconds=seconds, method=method)):
        kept_for = f"private, max-age={seconds // 2}"
        return HttpResponse(status=302, headers={"Location": address, "Cache-Control": kept_for})
    file: BinaryIO
    if path.suffix in TEXTS:
        data = kept.read(path)
        if data is None:
            return _missing()
        file, size, tag = io.BytesIO(data), len(data), hashlib.sha256(data).hexdigest()[:32]
    else:
        try:
            file = kept.open(path)
        except FileNotFoundError:
            return _missing()
        size = kept.size(path) or 0
        tag = f"{int(published.timestamp()):x}-{size:x}"
    response = respond(
        request,
        file,
        size=size,
        tag=f'"{tag}"',
        changed=published.timestamp(),
        content_type=TYPES[path.suffix],
    )
    return _cached(response, public=public)


def _missing() -> HttpResponse:
    return HttpResponse("Not found.", status=404, content_type="text/plain")


def _cached(response: HttpResponseBase, *, public: bool) -> HttpResponseBase:
    response["Cache-Control"] = (
        f"{'public' if public else 'private'}, max-age={YEAR if public else 300}, immutable"
    )
    return response
