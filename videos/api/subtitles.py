"""Subtitles of a video: one file per language, replaced and removed as a whole."""

from __future__ import annotations

import re
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query, Router, Status

from jobs.api.bodies import bound
from jobs.api.errors import refusals
from jobs.refusal import Refusal
from videos import serving, subtitling
from videos.access import VIEW, may_view
from videos.action_log import log_change
from videos.api.authentication import NOT_STAFF, staff
from videos.api.errors import refuse_unknown
from videos.api.schemas import SubtitleList, SubtitleOptions, SubtitleRow
from videos.api.videos import Id, StaffRequest, find_video
from videos.exceptions import UploadRefused
from videos.media.webvtt import MOST_BYTES
from videos.models import Video

router = Router(tags=["subtitles"])

_CHARSET = re.compile(
    r"utf-?8|utf-?16(le|be)?|us-ascii|iso-?8859-\d{1,2}|(windows-|cp)125\d|koi8-[ru]|shift_jis|euc-(jp|kr)|gbk|gb18030|big5",
    re.IGNORECASE,
)
"""Others cost too much to decode (punycode), or are no text (base64)."""
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_FILE: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"text/vtt": _BYTES, "application/x-subrip": _BYTES}}
}
_WEBVTT: dict[str, Any] = {"responses": {200: {"content": {"text/vtt": {"schema": {"type": "string"}}}}}}

Language = Annotated[
    str, Path(description="a tag such as en or pt-BR; und: not known. Upper and lower case are the same")
]


@router.get(
    "videos/{video_id}/subtitles",
    response={200: SubtitleList, **refusals(*NOT_STAFF, 404)},
    auth=staff(*VIEW),
    summary="List the subtitles of a video",
    operation_id="list_subtitles",
)
def subtitles(request: StaffRequest, video_id: Id) -> SubtitleList:
    rows = find_video(video_id).subtitles.defer("webvtt").order_by("language")
    return SubtitleList(subtitles=[SubtitleRow.model_validate(row) for row in rows])


@router.get(
    "videos/{video_id}/subtitles/{language}",
    response={200: None, **refusals(*NOT_STAFF, 404)},
    auth=staff(*VIEW),
    openapi_extra=_WEBVTT,
    summary="Fetch the subtitles in a language",
    operation_id="fetch_subtitles",
)
def fetch(request: StaffRequest, video_id: Id, language: Language) -> HttpResponse:
    """As WebVTT, whatever form they were uploaded in."""
    found = subtitling.in_language(find_video(video_id), _known(language))
    if found is None:
        raise _none_in(language)
    return HttpResponse(found.webvtt, content_type=serving.TYPES[".vtt"])


@router.put(
    "videos/{video_id}/subtitles/{language}",
    response={(200, 201): SubtitleRow, **refusals(*NOT_STAFF, 400, 404, 413, 415, 422)},
    auth=staff("videos.add_subtitle"),
    openapi_extra=_FILE,
    summary="Upload subtitles",
    operation_id="upload_subtitles",
)
def upload(
    request: StaffRequest, video_id: Id, language: Language, options: Query[SubtitleOptions]
) -> Status[SubtitleRow]:
    """An SRT or WebVTT file as the body; 201, or 200 if it replaced what the video had in this language.

    The characters are UTF-8, UTF-16 or Windows-1252, found by looking at them, unless Content-Type names a `charset`.
    """
    refuse_unknown(request.GET, SubtitleOptions.model_fields)
    video = _visible(request, video_id)
    if not subtitling.is_language(language):
        raise Refusal(422, "invalid", "language: Use a tag such as en or pt-BR")
    try:
        captions = subtitling.Captions.of(_body(request), language=language, label=options.label.strip())
        stored, created = subtitling.replace(video, captions)
    except UploadRefused as refusal:
        if refusal.code == "video_gone":
            raise Refusal(404, "not_found", str(refusal)) from None
        raise Refusal(422, "refused", f"body: {refusal}") from None
    _log(request, video, f"subtitles stored: {stored.language}")
    return Status(201 if created else 200, SubtitleRow.model_validate(stored))


@router.delete(
    "videos/{video_id}/subtitles/{language}",
    response={204: None, **refusals(*NOT_STAFF, 404)},
    auth=staff("videos.delete_subtitle"),
    summary="Remove the subtitles in a language",
    operation_id="remove_subtitles",
)
def remove(request: StaffRequest, video_id: Id, language: Language) -> Status[None]:
    """Whether they were uploaded, found in the source or recognised."""
    video = _visible(request, video_id)
    removed = subtitling.remove(video, _known(language))
    if removed is None:
        raise _none_in(language)
    _log(request, video, f"subtitles removed: {removed}")
    return Status(204, None)


def _visible(request: StaffRequest, video_id: str) -> Video:
    """As on the page of the admin: who adds or removes subtitles must be allowed to see the video, too."""
    if not may_view(request.user):
        raise Refusal(403, "forbidden", f"This takes the permission {' or '.join(VIEW)}, too.")
    return find_video(video_id)


def _known(language: str) -> str:
    """Raises Refusal for what is no language: there are no subtitles in it."""
    if not subtitling.is_language(language):
        raise _none_in(language)
    return language


def _none_in(language: str) -> Refusal:
    return Refusal(404, "not_found", f"The video has no subtitles in {language[:20]!r}.")


def _body(request: HttpRequest) -> bytes:
    """The file as bytes, in UTF-8 if the request says in which charset it is; else as they are."""
    if (request.content_type or "").startswith("multipart/"):
        raise Refusal(415, "unsupported_type", "Send the file as the body itself, not in a form.")
    bound(request, MOST_BYTES)
    data = request.read()
    if len(data) < int(request.META.get("CONTENT_LENGTH") or 0):
        raise Refusal(400, "interrupted", "The body could not be read to its end.")
    charset = (request.content_params or {}).get("charset", "")
    if not charset:
        return data
    if not _CHARSET.fullmatch(charset):
        raise Refusal(422, "invalid", f"charset: {charset[:40]!r} is not supported; send UTF-8")
    try:
        return data.decode(charset).encode()
    except (UnicodeDecodeError, LookupError):
        raise Refusal(422, "invalid", f"charset: The body is not in {charset}") from None


def _log(request: StaffRequest, video: Video, message: str) -> None:
    log_change(request.user, video.pk, video.title, message)
