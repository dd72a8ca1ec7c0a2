"""tus 1.0 over HTTP: OPTIONS and POST to begin; HEAD, PATCH, DELETE, and GET for people who like JSON."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

from django.db import transaction
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    JsonResponse,
    UnreadablePostError,
)
from django.urls import reverse
from django.utils.http import http_date
from django.views.decorators.csrf import csrf_exempt

from jobs.refusal import Refusal
from videos import conf, upload_rate
from videos.access import UPLOAD
from videos.action_log import log_addition
from videos.identity import identify
from videos.models import ResumableUpload
from videos.resumable import protocol, uploads

log = logging.getLogger("videos.resumable")

BLOCK = 1 << 18

Handler = Callable[..., HttpResponse]


def _tus(*methods: str) -> Callable[[Handler], Handler]:
    """What every request has in common: version, rights, and refusals as JSON."""

    def decorate(view: Handler) -> Handler:
        @csrf_exempt  # identify() checks it, for those who come with a session
        @transaction.non_atomic_requests
        @functools.wraps(view)
        def answer(request: HttpRequest, **named: str) -> HttpResponse:
            method = _method(request)
            try:
                if method == "OPTIONS":
                    response = _options()
                elif method not in methods:
                    response = HttpResponseNotAllowed([*methods, "OPTIONS"])
                else:
                    if method != "GET":
                        protocol.check_version(request)
                    user = identify(request, UPLOAD)
                    response = view(request, method=method, user=user, **named)
            except Refusal as refusal:
                response = refusal.as_response()
            response.headers["Tus-Resumable"] = protocol.VERSION
            response.headers["Cache-Control"] = "no-store"
            return response

        return answer

    return decorate


def _method(request: HttpRequest) -> str:
    """Clients behind proxies that know GET and POST alone say what they mean. Of a GET we do not believe it: browsers
    send those without asking."""
    method = request.method or ""
    return request.headers.get("X-HTTP-Method-Override", method).upper() if method == "POST" else method


def _options() -> HttpResponse:
    return HttpResponse(
        status=204,
        headers={
            "Tus-Version": protocol.VERSION,
            "Tus-Extension": protocol.EXTENSIONS,
            "Tus-Max-Size": str(conf.current().upload_max_bytes),
            "Tus-Checksum-Algorithm": ",".join(protocol.ALGORITHMS),
        },
    )


@_tus("POST")
def begin(request: HttpRequest, *, method: str, user: Any) -> HttpResponse:
    if "Upload-Defer-Length" in request.headers:
        raise Refusal(400, "invalid", "Upload-Defer-Length: the length must be known, in Upload-Length.")
    length = protocol.number(request, "Upload-Length")
    upload_rate.take(user)
    upload = uploads.create(user.get_username(), length, request.headers.get("Upload-Metadata", ""))
    # Without scheme and host: a proxy knows them better.
    place = reverse("videos:upload", args=[upload.pk])
    return HttpResponse(status=201, headers={"Location": place, "Upload-Offset": "0", **_expires(upload)})


@_tus("HEAD", "GET", "PATCH", "DELETE")
def upload(request: HttpRequest, *, method: str, user: Any, upload_id: str) -> HttpResponse:
    found = uploads.find(upload_id, user.get_username())
    if method == "PATCH":
        return _append(request, found, user)
    if method == "DELETE":
        uploads.terminate(found)
        return HttpResponse(status=204)
    return _head(found) if method == "HEAD" else _tell(found)


def _head(found: ResumableUpload) -> HttpResponse:
    headers = {"Upload-Offset": str(uploads.offset_of(found)), "Upload-Length": str(found.length)}
    if found.metadata:
        headers["Upload-Metadata"] = found.metadata
    return HttpResponse(headers={**headers, **_expires(found)})


def _tell(found: ResumableUpload) -> HttpResponse:
    video = found.video
    return JsonResponse(
        {
            "id": found.pk,
            "offset": uploads.offset_of(found),
            "length": found.length,
            "expires_at": found.expires_at.isoformat(),
            "finished": found.finished_at is not None,
            "video": {"id": video.pk, "title": video.title, "created": found.is_new} if video else None,
        }
    )


def _append(request: HttpRequest, found: ResumableUpload, user: Any) -> HttpResponse:
    if request.content_type != protocol.CHUNK:
        raise Refusal(415, "unsupported_media_type", f"Content-Type must be {protocol.CHUNK}.")
    offset = protocol.number(request, "Upload-Offset")
    size = protocol.number(request, "Content-Length")
    checksum = protocol.read_checksum(request.headers.get("Upload-Checksum"))
    offset = uploads.append(found, offset=offset, size=size, blocks=_blocks(request, size), checksum=checksum)
    if found.finished_at and found.video and found.is_new:
        log_addition(user, found.video, f"uploaded {found.video.source_name}")
    return HttpResponse(status=204, headers={"Upload-Offset": str(offset), **_expires(found)})


def _blocks(request: HttpRequest, size: int) -> Iterator[bytes]:
    left = size
    try:
        while left and (block := request.read(min(BLOCK, left))):
            left -= len(block)
            yield block
    except UnreadablePostError:
        log.info("an upload was interrupted")
    if left:
        raise Refusal(400, "interrupted", "The connection was lost; ask for the offset and go on from there.")


def _expires(found: ResumableUpload) -> dict[str, str]:
    return {"Upload-Expires": http_date(found.expires_at.timestamp())}
