"""The page of one video: its player, what moves while it is encoded, and what can be done now."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef, Sum
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse

from jobs import live
from jobs.admin.log import log_rows
from jobs.exceptions import TransitionRefused
from videos import live_topics, subtitling
from videos.exceptions import VideosError
from videos.media.ladder import LADDER
from videos.media.webvtt import MOST_BYTES
from videos.models import QualityStatus, Rendition, RenditionKind, Video
from videos.progress import QualityShare
from videos.verbs import (
    BY_NAME,
    PURGE,
    RETRANSCODE,
    RETRY_QUALITY,
    VERBS,
    Order,
    Situation,
    situation_of,
    which,
)

_SHOWN_GENERATIONS = 10


def address_of(admin: Any, video_id: str) -> str:
    return reverse("admin:videos_video_change", args=[video_id], current_app=admin.admin_site.name)


def context(admin: Any, request: HttpRequest, video_id: str) -> dict[str, Any]:
    """What the page shows above the form of Django's admin; nothing where that will answer with an error itself."""
    if not admin.has_view_or_change_permission(request) or (video := _find(video_id)) is None:
        return {}
    now = situation_of(video, video.transcodes.order_by("-number").first())
    may_change = admin.may(request, "change")
    subtitles = list(video.subtitles.defer("webvtt"))
    moving = _moving(video, now, admin.admin_site.name, may_change=may_change)
    return {
        **moving,
        "title": video.title,
        "subtitle": None,
        "video": video,
        "captions": subtitles,
        "subtitles": subtitles,
        "buttons": [
            {"verb": verb, "possible": verb.is_possible(now), "live": f"video.{video.pk}.can_{verb.name}"}
            for verb in VERBS
            if verb not in (RETRANSCODE, RETRY_QUALITY) and admin.may(request, verb.permission)
        ],
        "retranscode": RETRANSCODE if may_change else None,
        "retranscode_possible": RETRANSCODE.is_possible(now),
        "purge_url": reverse("admin:videos_video_purge", args=[video.pk], current_app=admin.admin_site.name),
        "may_change": may_change,
        "may_add_subtitles": request.user.has_perm("videos.add_subtitle"),
        "may_delete_subtitles": request.user.has_perm("videos.delete_subtitle"),
        "ladder": _rungs(video),
        "published_qualities": _published_qualities(video, now, moving["now"].made),
        "published_bytes": video.published_bytes,
        "seen": now.seen,
    }


def _find(video_id: str) -> Any:
    """With what its published files take; None: there is no such video."""
    if "\0" in video_id:
        return None
    renditions = Rendition.objects.filter(transcode=OuterRef("current")).order_by().values("transcode")
    rows = Video.objects.select_related("channel", "current").defer("current__plan")
    return (
        rows.annotate(published_bytes=renditions.annotate(all=Sum("bytes")).values("all"))
        .filter(pk=video_id)
        .first()
    )


def _visible(admin: Any, request: HttpRequest, video_id: str) -> Video:
    if not admin.has_view_or_change_permission(request):
        raise PermissionDenied
    video: Video | None = _find(video_id)
    if video is None:
        raise Http404("There is no such video. It may have been purged.")
    return video


def _published_qualities(video: Video, now: Situation, made: Sequence[QualityShare]) -> list[str]:
    if video.current is None:
        return []
    if now.newest is not None and now.newest.pk == video.current_id:
        return [share.quality for share in made if share.status == QualityStatus.COMPLETED]
    return list(video.current.renditions.filter(kind=RenditionKind.VIDEO).values_list("name", flat=True))


def _rungs(video: Video) -> list[str]:
    """The qualities that the source allows; a small source has one of its own size."""
    side = min(video.width or 0, video.height or 0)
    return [rung.name for rung in LADDER if rung.short_side <= side]


# -- what moves by itself ----------------------------------------------------------------------------------------------


def _moving(video: Video, now: Situation, site: str, *, may_change: bool) -> dict[str, Any]:
    """Also read without a request, for the live stream; so the addresses are made here, for this admin site."""
    jobs = _address("admin:jobs_job_changelist", site)
    newest_first = video.transcodes.defer("plan").order_by("-number")
    return {
        "now": live_topics.standing_of(video, now.newest),
        "video": video,
        "may_retry_quality": may_change and RETRY_QUALITY.is_possible(now),
        "is_active": now.is_active,
        "newest": now.newest,
        "failed_stages": now.missing_stages,
        "generations": [
            {
                "transcode": transcode,
                "url": _address("admin:videos_transcode_change", site, transcode.pk),
                "jobs_url": f"{jobs}?q={transcode.workflow_id}" if jobs and transcode.workflow_id else "",
            }
            for transcode in newest_first[:_SHOWN_GENERATIONS]
        ],
    }


def _address(name: str, site: str, *arguments: object) -> str:
    """Empty where somebody's own admin site has no such page."""
    try:
        return reverse(name, args=arguments, current_app=site)
    except NoReverseMatch:
        return ""


def live_view(admin: Any, request: HttpRequest, *, video_id: str) -> HttpResponseBase:
    video = _visible(admin, request, video_id)
    may_change = admin.may(request, "change")
    site = admin.admin_site.name
    name = f"video-page:{site}:{video.pk}:{'change' if may_change else 'view'}"
    return live.stream(request, [live.Topic(name, partial(_read_page, video.pk, site, may_change))])


def _read_page(video_id: str, site: str, may_change: bool) -> live.State:
    video = _find(video_id)
    if video is None:
        return {f"video.{video_id}.status": "purged"}
    now = situation_of(video, video.transcodes.order_by("-number").first())
    values = _moving(video, now, site, may_change=may_change)
    prefix = f"video.{video.pk}"
    return {
        f"{prefix}.status": video.status,
        f"{prefix}.generation": video.current.number if video.current else 0,
        f"{prefix}.seen": now.seen,
        **{f"{prefix}.can_{verb.name}": verb.is_possible(now) for verb in VERBS},
        f"{prefix}.standing": render_to_string("admin/videos/video/standing.html", values),
        f"{prefix}.qualities": render_to_string("admin/videos/video/qualities.html", values),
        f"{prefix}.generations": render_to_string("admin/videos/video/generations.html", values),
    }


# -- what people do ----------------------------------------------------------------------------------------------------


def act(admin: Any, request: HttpRequest, *, video_id: str) -> HttpResponse:
    """One verb on this video. What the button was about must still be so: a second click does nothing."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    verb = BY_NAME.get(request.POST.get("verb", ""))
    if verb is None:
        return HttpResponse("No such verb.", status=400, content_type="text/plain")
    if not admin.has_view_or_change_permission(request) or not admin.may(request, verb.permission):
        raise PermissionDenied
    video = _find(video_id)
    if video is None:
        return _gone(admin, request)
    now = situation_of(video)
    back = redirect(address_of(admin, video.pk))
    if request.POST.get("seen") != now.seen or not verb.is_possible(now):
        admin.message_user(
            request,
            f"Nothing was done: “{video.title}” is in another state by now.",
            messages.WARNING,
            extra_tags="not_possible",
        )
        return back
    order = Order(
        actor=request.user.get_username(),
        qualities=tuple(request.POST.getlist("quality")),
        subtitles=request.POST.get("subtitles") == "yes",
    )
    try:
        outcome = verb.do(video, order)
    except (VideosError, TransitionRefused) as refusal:
        admin.message_user(request, str(refusal), messages.ERROR, extra_tags=refused_tag(refusal))
        return back
    about = which(order, outcome)
    log_rows(request, Video, [video_id], f"{verb.done}{about}", {video_id: video.title})
    said = f"“{video.title}” was {verb.done}{about}."
    admin.message_user(request, said, messages.SUCCESS, extra_tags=f"done_{verb.name}")
    return back if verb is not PURGE else _to_list(admin)


def refused_tag(refusal: VideosError | TransitionRefused) -> str:
    """The code of a refusal, for the message that tells it."""
    return refusal.code if isinstance(refusal, VideosError) else "not_possible"


def _gone(admin: Any, request: HttpRequest) -> HttpResponse:
    said = "Nothing was done: there is no such video any more."
    admin.message_user(request, said, messages.WARNING, extra_tags="not_found")
    return _to_list(admin)


def _to_list(admin: Any) -> HttpResponse:
    return redirect(reverse("admin:videos_video_changelist", current_app=admin.admin_site.name))


def ask_to_purge(admin: Any, request: HttpRequest, *, video_id: str) -> HttpResponse:
    """What purging takes away, before it does."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    video = _visible(admin, request, video_id)
    if not admin.may(request, PURGE.permission):
        raise PermissionDenied
    now = situation_of(video)
    shown = {
        **admin.admin_site.each_context(request),
        "title": "Purge: are you sure?",
        "opts": admin.opts,
        "media": admin.media,
        "video": video,
        "verb": PURGE,
        "possible": PURGE.is_possible(now),
        "seen": now.seen,
        "count": 1,
        "sample": [video.title],
        "act_url": reverse("admin:videos_video_act", args=[video.pk], current_app=admin.admin_site.name),
        "back": address_of(admin, video.pk),
    }
    request.current_app = admin.admin_site.name
    return TemplateResponse(request, "admin/videos/video/confirm.html", shown)


def subtitles(admin: Any, request: HttpRequest, *, video_id: str) -> HttpResponse:
    """Upload a file of subtitles, or remove one language."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    video = _visible(admin, request, video_id)
    removed = request.POST.get("remove")
    needed = "videos.delete_subtitle" if removed else "videos.add_subtitle"
    if not request.user.has_perm(needed):
        raise PermissionDenied
    if removed:
        _remove_subtitles(admin, request, video, removed)
    else:
        _store_subtitles(admin, request, video)
    return redirect(address_of(admin, video.pk) + "#subtitles")


def _store_subtitles(admin: Any, request: HttpRequest, video: Video) -> None:
    file = request.FILES.get("file")
    if file is None:
        said = "Choose a file with subtitles (SRT or WebVTT)."
        admin.message_user(request, said, messages.ERROR, extra_tags="no_file")
        return
    language = request.POST.get("language", "").strip()
    try:
        stored = subtitling.upload(
            video,
            file.read(MOST_BYTES + 1),  # enough to know that it is too large
            language=language,
            label=request.POST.get("label", "").replace("\0", "").strip(),
        )
    except VideosError as refusal:
        admin.message_user(request, str(refusal), messages.ERROR, extra_tags=refusal.code)
        return
    log_rows(request, Video, [video.pk], f"subtitles stored: {stored.language}", {video.pk: video.title})
    said = f"The subtitles in {stored.language} are stored."
    admin.message_user(request, said, messages.SUCCESS, extra_tags="subtitles_stored")


def _remove_subtitles(admin: Any, request: HttpRequest, video: Video, language: str) -> None:
    removed = subtitling.remove(video, language.replace("\0", ""))
    if removed is None:
        said = "Nothing was done: there are no such subtitles."
        admin.message_user(request, said, messages.WARNING, extra_tags="not_found")
        return
    log_rows(request, Video, [video.pk], f"subtitles removed: {removed}", {video.pk: video.title})
    said = f"The subtitles in {removed} are removed."
    admin.message_user(request, said, messages.SUCCESS, extra_tags="subtitles_removed")
