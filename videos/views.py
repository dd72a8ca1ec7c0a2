"""The pages: a video, a channel, and the files of a video. Each file is asked about on its own."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from videos import progress, serving, storage
from videos.access import may_watch
from videos.models import Channel, Subtitle, Transcode, Video, Visibility


@require_safe
def watch(request: HttpRequest, slug: str) -> HttpResponse:
    video = _visible(request, slug)
    transcode = video.current
    captions = video.subtitles.all() if transcode else []
    context = {
        "video": video,
        "transcode": transcode,
        "has_poster": bool(transcode and (storage.generation(transcode) / "poster.jpg").exists()),
        "captions": captions,
    }
    return render(request, "videos/watch.html", context)


@require_safe
def status(request: HttpRequest, slug: str) -> JsonResponse:
    """How far the newest transcode is: what the page asks for while it waits."""
    video = _visible(request, slug)
    newest = video.transcodes.order_by("-number").first()
    now = progress.read(newest) if newest else None
    return JsonResponse(
        {
            "status": video.status,
            "error": video.error_message,
            "percent": round(now.percent, 1) if now else 0,
            "step": now.step if now else "",
            "eta": now.eta.isoformat() if now and now.eta else None,
            "qualities": [
                {"quality": share.quality, "status": share.status, "percent": round(share.percent, 1)}
                for share in (now.qualities if now else ())
            ],
        },
        headers={"Cache-Control": "no-store"},
    )


@require_safe
def channel(request: HttpRequest, slug: str) -> HttpResponse:
    found = get_object_or_404(Channel, slug=slug)
    videos = found.videos.listed().select_related("current").order_by("-published_at")
    return render(request, "videos/channel.html", {"channel": found, "videos": videos[:200]})


@require_safe
def media(request: HttpRequest, slug: str, number: int, name: str) -> HttpResponseBase:
    """A file of a published generation, or of one that was published until a moment ago."""
    video = _visible(request, slug)
    if not Transcode.objects.servable().filter(video=video, number=number).exists():
        raise Http404("There is no such generation.")
    try:
        path = storage.published_file(video.pk, number, name)
    except storage.NoSuchName:
        raise Http404("There is no such file.") from None
    return serving.serve(request, path, public=video.visibility == Visibility.PUBLIC)


@require_safe
def captions(request: HttpRequest, slug: str, language: str) -> HttpResponse:
    subtitle = get_object_or_404(Subtitle, video=_visible(request, slug), language=language)
    return HttpResponse(
        subtitle.webvtt,
        content_type=serving.TYPES[".vtt"],
        headers={"Cache-Control": "private, no-cache"},
    )


def _visible(request: HttpRequest, slug: str) -> Video:
    """A video that this person may not see is not there, for all they know."""
    video = get_object_or_404(Video.objects.kept().select_related("channel", "current"), slug=slug)
    if not may_watch(request.user, video):
        raise Http404("There is no such video.")
    return video
