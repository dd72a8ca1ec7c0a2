"""A file as an answer: all of it or the range that was asked for, streamed block by block under WSGI and ASGI."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import BinaryIO

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.http import http_date, parse_http_date_safe

BLOCK = 1 << 18
_RANGE = re.compile(r"bytes=([0-9]{0,30})-([0-9]{0,30})")


def respond(
    request: HttpRequest, file: BinaryIO, *, size: int, tag: str, changed: float, content_type: str
) -> HttpResponseBase:
    """200, 206, 304 or 416. The open file is closed when the answer is sent; `tag` is the ETag, with its quotes."""
    response: HttpResponseBase
    if _is_known(request, tag, changed):
        file.close()
        response = HttpResponse(status=304)
    else:
        response = _content(request, file, size, tag)
        response["Content-Type"] = content_type
    response["ETag"] = tag
    response["Last-Modified"] = http_date(changed)
    response["Accept-Ranges"] = "bytes"
    return response


def _content(request: HttpRequest, file: BinaryIO, size: int, tag: str) -> HttpResponseBase:
    wanted = _wanted_range(request, size, tag)
    if wanted is None:
        return _stream(request, file, 0, size)
    first, end = wanted
    if first >= end:
        file.close()
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{size}"})
    response = _stream(request, file, first, end)
    response.status_code = 206
    response["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
    return response


def _wanted_range(request: HttpRequest, size: int, tag: str) -> tuple[int, int] | None:
    """From where up to where, or None: all of it. Several ranges at once are answered with all of it, as one may."""
    match = _RANGE.fullmatch(request.headers.get("Range", "").strip())
    if not match or match.groups() == ("", "") or request.headers.get("If-Range", tag) != tag:
        return None
    first, last = match.groups()
    if not first:
        return max(0, size - int(last)), size if int(last) else 0
    if last and int(last) < int(first):
        return None
    return int(first), min(size, int(last) + 1) if last else size


def _stream(request: HttpRequest, file: BinaryIO, first: int, end: int) -> HttpResponseBase:
    if request.method == "HEAD":
        file.close()
        response: HttpResponseBase = HttpResponse()
    else:
        file.seek(first)
        blocks = _blocks_of_a_loop if isinstance(request, ASGIRequest) else _blocks
        response = StreamingHttpResponse(blocks(file, end - first))
    response["Content-Length"] = str(end - first)
    return response


def _blocks(file: BinaryIO, length: int) -> Iterator[bytes]:
    with file:
        while length > 0 and (block := file.read(min(BLOCK, length))):
            length -= len(block)
            yield block


async def _blocks_of_a_loop(file: BinaryIO, length: int) -> AsyncIterator[bytes]:
    """Under ASGI Django would read all of a plain iterator before the first byte is sent."""
    with file:
        while length > 0 and (block := await asyncio.to_thread(file.read, min(BLOCK, length))):
            length -= len(block)
            yield block


def _is_known(request: HttpRequest, tag: str, changed: float) -> bool:
    known = request.headers.get("If-None-Match")
    if known is not None:
        return known.strip() == "*" or tag in [part.strip().removeprefix("W/") for part in known.split(",")]
    since = parse_http_date_safe(request.headers.get("If-Modified-Since", ""))
    return since is not None and int(changed) <= since
