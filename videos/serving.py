"""Serve one file of a generation: the right type, byte ranges, and caching for ever, since it never changes."""

from __future__ import annotations

from pathlib import Path

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from jobs.file_responses import respond

TYPES = {
    ".m3u8": "application/vnd.apple.mpegurl",
    ".mp4": "video/mp4",
    ".m4s": "video/iso.segment",
    ".jpg": "image/jpeg",
    ".vtt": "text/vtt; charset=utf-8",
}
YEAR = 365 * 86400


def serve(request: HttpRequest, path: Path, *, public: bool) -> HttpResponseBase:
    """The file, or the part of it that was asked for. The path comes from storage.py, never from the request."""
    try:
        file = path.open("rb")
    except OSError:
        return HttpResponse("Not found.", status=404, content_type="text/plain")
    stat = path.stat()
    response = respond(
        request,
        file,
        size=stat.st_size,
        tag=f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"',
        changed=stat.st_mtime,
        content_type=TYPES[path.suffix],
    )
    response["Cache-Control"] = (
        f"{'public' if public else 'private'}, max-age={YEAR if public else 300}, immutable"
    )
    return response
