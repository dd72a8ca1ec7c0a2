"""The pages: a video, a channel, and the files of a video. Each file is asked about on its own."""

from __future__ import annotations

import logging

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_safe

from jobs import live
from videos import conf, depot, live_topics, serving, storage
from videos.access import may_edit, may_view, may_watch
from videos.depot import StorageDown, StorageRefused
from videos.models import Channel, Subtitle, Transcode, Video, Visibility
from videos.page_security import strict_policy

log = logging.getLogger("videos")

SHELF = 24
"""Videos on a page of a channel."""
MORE = 8
"""Other videos of the channel below a video."""


@require_safe
@strict_policy
def watch(request: HttpRequest, slug: str) -> HttpResponse:
    video = _visible(request, slug)
    others = video.channel.videos.listed().exclude(pk=video.pk)
    context = {
        "video": video,
        "now": None if video.current else live_topics.standing_of(video),
        "captions": video.subtitles.defer("webvtt") if video.current else (),
        "more": others.for_shelf()[:MORE],
        "admin_url": _admin_url(request, "admin:videos_video_change", video.pk),
    }
    return render(request, "videos/watch.html", context)


@require_safe
def status(request: HttpRequest, slug: str) -> JsonResponse:
    """How far the newest transcode is. Errors name files and commands: they are for those who run the site."""
    now = live_topics.standing_of(_visible(request, slug))
    return JsonResponse(
        {
            "status": now.status,
            "error": now.error if may_view(request.user) else "",
            "percent": round(now.percent, 1),
            "step": now.step,
            "eta": now.eta.isoformat() if now.eta else None,
            "qualities": [
                {"quality": share.quality, "status": share.status, "percent": round(share.percent, 1)}
                for share in now.qualities
            ],
        },
        headers={"Cache-Control": "no-store"},
    )


@require_safe
def events(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The same as a stream, for the page of a video that is not ready."""
    return live.stream(request, [live_topics.waiting_topic(_visible(request, slug))])


@require_safe
@strict_policy
def channel(request: HttpRequest, slug: str) -> HttpResponse:
    found = get_object_or_404(Channel, slug=slug)
    context = {
        "channel": found,
        "page": Paginator(found.videos.listed().for_shelf(), SHELF).get_page(request.GET.get("page")),
        "admin_url": _admin_url(request, "admin:videos_video_changelist", query=f"?channel={found.pk}"),
    }
    return render(request, "videos/channel.html", context)


@require_safe
def media(request: HttpRequest, slug: str, number: int, name: str) -> HttpResponseBase:
    """A file of a published generation, or of one that was published until a moment ago."""
    video = _visible(request, slug)
    servable = Transcode.objects.servable().filter(video=video, number=number)
    found = servable.only("published_at", "created_at").first()
    if found is None:
        raise Http404("There is no such generation.")
    try:
        path = storage.published_file(video.pk, number, name)
    except storage.NoSuchName:
        raise Http404("There is no such file.") from None
    public = video.visibility == Visibility.PUBLIC
    kept = depot.current()
    if kept is None:
        return serving.serve(request, path, public=public)
    seconds = int(conf.current().signed_url_expiry.total_seconds())
    try:
        return serving.serve_kept(
            request,
            kept,
            path,
            published=found.published_at or found.created_at,
            public=public,
            seconds=max(1, seconds),
        )
    except (StorageDown, StorageRefused) as error:
        log.error("%s", error)
        return HttpResponse(
            "The storage of the videos does not answer; try again soon.",
            status=503,
            content_type="text/plain",
            headers={"Retry-After": "10", "Cache-Control": "no-store"},
        )


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
    kept = Video.objects.kept().select_related("channel", "current").defer("current__plan")
    video = get_object_or_404(kept, slug=slug)
    if not may_watch(request.user, video):
        raise Http404("There is no such video.")
    return video


def _admin_url(request: HttpRequest, name: str, *arguments: str, query: str = "") -> str:
    """Where somebody who may change videos does so; empty for others, and where there is no admin."""
    if not may_edit(request.user):
        return ""
    try:
        return reverse(name, args=arguments) + query
    except NoReverseMatch:
        return ""
