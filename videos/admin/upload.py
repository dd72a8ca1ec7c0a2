"""The upload page: files are dropped there, and each is sent by itself as the body of a POST, streamed to disk.

Large ones go to videos/resumable instead, piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse, UnreadablePostError
from django.middleware.csrf import get_token
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse

from jobs.refusal import Refusal
from videos import conf, intake, upload_rate
from videos.exceptions import UploadRefused
from videos.models import Channel, Video, Visibility
from videos.refusal import refusing_uploads

BLOCK = 1 << 18


def show(admin: Any, request: HttpRequest) -> HttpResponse:
    if not admin.has_add_permission(request):
        raise PermissionDenied
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    site = admin.admin_site.name
    context = {
        **admin.admin_site.each_context(request),
        "title": "Upload videos",
        "opts": admin.opts,
        "media": admin.media,
        "channels": Channel.objects.only("pk", "name"),
        "chosen_channel": request.GET.get("channel", ""),
        "may_add_channel": request.user.has_perm("videos.add_channel"),
        "visibilities": Visibility.choices,
        "most_bytes": conf.current().upload_max_bytes,
        "csrf": get_token(request),
        "upload_url": reverse("admin:videos_video_upload", current_app=site),
        "resumable_url": _resumable_url(),
        "change_url": reverse("admin:videos_video_change", args=["ID"], current_app=site),
        "live_url": reverse("admin:videos_video_list_live", current_app=site),
    }
    request.current_app = site
    return TemplateResponse(request, "admin/videos/video/upload.html", context)


def _resumable_url() -> str:
    """Empty on a site that does not include videos.urls: then large files go up in one piece, too."""
    try:
        return reverse("videos:uploads")
    except NoReverseMatch:
        return ""


def receive(admin: Any, request: HttpRequest) -> HttpResponse:
    """The body is the file; ?name=…&channel=…&title=…&visibility=… says what to make of it."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    try:
        video = _receive(admin, request)
    except Refusal as refusal:
        return refusal.as_response()
    if video.created:
        admin.log_addition(request, video, f"uploaded {video.source_name}")
    site = admin.admin_site.name
    answer = {
        "id": video.pk,
        "title": video.title,
        "created": video.created,
        "admin": reverse("admin:videos_video_change", args=[video.pk], current_app=site),
    }
    return JsonResponse(answer, status=201 if video.created else 200)


def _receive(admin: Any, request: HttpRequest) -> Video:
    if not admin.has_add_permission(request):
        raise Refusal(403, "forbidden", "You may not upload videos.")
    if request.content_type != "application/octet-stream":
        raise Refusal(415, "unsupported_media_type", "Send the file itself, as application/octet-stream.")
    length, most = int(request.headers.get("Content-Length") or 0), conf.current().upload_max_bytes
    with refusing_uploads():
        channel = _channel(request.GET.get("channel", ""))
        if length > most:
            raise Refusal(
                413, "too_large", f"The file is larger than {most:,} bytes, which is the limit here."
            )
        upload_rate.take(request.user)
        return intake.accept_stream(
            _blocks(request, length),
            name=request.GET.get("name", "") or "video",
            title=request.GET.get("title", ""),
            channel=channel,
            owner=request.user.get_username(),
            visibility=request.GET.get("visibility", Visibility.PUBLIC),
        )


def _channel(given: str) -> Channel:
    found = Channel.objects.filter(pk=int(given)).first() if given.isdecimal() and len(given) < 19 else None
    if found is None:
        raise UploadRefused("Choose a channel for the video.", code="no_channel")
    return found


def _blocks(request: HttpRequest, length: int) -> Iterator[bytes]:
    """What arrives. A file that was cut off on its way is no file."""
    left = length
    try:
        while left and (block := request.read(min(BLOCK, left))):
            left -= len(block)
            yield block
    except UnreadablePostError as error:
        raise UploadRefused("The upload was interrupted; send the file again.", code="interrupted") from error
    if left:
        raise UploadRefused("The upload was interrupted; send the file again.", code="interrupted")
