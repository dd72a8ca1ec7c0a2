"""Videos: the list, the bin, and what is done to a selection. video_page.py shows one, upload.py takes new ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs import live
from jobs.admin.base import bar, live_badge, moment
from jobs.admin.log import log_rows
from jobs.exceptions import TransitionRefused
from jobs.live.offers import BadTopic
from videos import live_topics
from videos.admin import filters, upload, video_page
from videos.exceptions import VideosError
from videos.models import Transcode, Video, Visibility
from videos.pictures import POSTER, picture_url
from videos.templatetags.videos_pages import clock
from videos.verbs import ON_A_SELECTION, PURGE, Order, Verb, situation_of

Action = Callable[[Any, HttpRequest, Any], HttpResponse | None]


def _action(verb: Verb) -> Action:
    @admin.action(description=verb.label, permissions=[verb.permission])
    def action(model_admin: Any, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        if verb is PURGE and request.POST.get("confirmed") != "yes":
            return _ask(model_admin, request, queryset, verb)
        _act_on_all(model_admin, request, queryset, verb)
        return None

    action.__name__ = verb.name
    return action


@admin.register(Video)
class VideoAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("film", "state", "progress", "created")
    list_display_links = None
    list_filter = (
        filters.StatusFilter,
        filters.ChannelFilter,
        filters.VisibilityFilter,
        filters.BinFilter,
    )
    search_fields = ("title", "slug", "=id", "=source_sha256")
    search_help_text = "A part of the title or the address, an id, or the SHA-256 of the uploaded file."
    list_select_related = ("channel", "current")
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions = tuple(_action(verb) for verb in ON_A_SELECTION)
    fields = ("title", "channel", "visibility", "owner")
    view_on_site = False  # "Watch page" is there, when there is something to watch
    change_form_template = "admin/videos/video/change_form.html"

    class Media:
        css = {"all": ("jobs/sprocket.css", "jobs/admin.css", "videos/player/player.css", "videos/admin.css")}
        js = ("jobs/live.js", "jobs/once.js")

    # -- who may what --------------------------------------------------------------------------------------------------

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # rows alone would leave the files: purge

    def has_purge_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("videos.delete_video")

    def may(self, request: HttpRequest, permission: str) -> bool:
        return bool(getattr(self, f"has_{permission}_permission")(request))

    # -- pages ---------------------------------------------------------------------------------------------------------

    def get_urls(self) -> list[Any]:
        def wrap(view: Callable[..., HttpResponseBase]) -> Any:
            return self.admin_site.admin_view(lambda request, **named: view(self, request, **named))

        return [
            path("live/", wrap(_list_live), name="videos_video_list_live"),
            path("upload/", wrap(upload.receive), name="videos_video_upload"),
            path("<str:video_id>/live/", wrap(video_page.live_view), name="videos_video_live"),
            path("<str:video_id>/act/", wrap(video_page.act), name="videos_video_act"),
            path("<str:video_id>/purge/", wrap(video_page.ask_to_purge), name="videos_video_purge"),
            path("<str:video_id>/subtitles/", wrap(video_page.subtitles), name="videos_video_subtitles"),
            *super().get_urls(),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return super().changelist_view(request, {"title": "Videos", **(extra_context or {})})

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        return upload.show(self, request)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        context = {**(extra_context or {}), **video_page.context(self, request, object_id)}
        return super().change_view(request, object_id, form_url, context)

    def get_queryset(self, request: HttpRequest) -> Any:
        """Plans are long, and no list shows them."""
        running = Transcode.objects.active().defer("plan")
        rows = super().get_queryset(request).defer("current__plan")
        return rows.prefetch_related(Prefetch("transcodes", running, to_attr="under_way"))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        return None if "\0" in object_id else super().get_object(request, object_id, from_field)

    # -- columns -------------------------------------------------------------------------------------------------------

    @admin.display(description="video", ordering="title")
    def film(self, video: Video) -> SafeString:
        poster = picture_url(video, POSTER) if video.deleted_at is None else ""
        hidden = "" if video.visibility == Visibility.PUBLIC else video.visibility
        facts = [video.channel.name, clock(video.duration), hidden, "in the bin" if video.deleted_at else ""]
        still = format_html('<img src="{}" alt="" loading="lazy">', poster) if poster else ""
        return format_html(
            '<a class="v-film" href="{}"><span class="v-still">{}</span><span><strong>{}</strong>'
            '<span class="sp-quiet">{}</span></span></a>',
            video_page.address_of(self, video.pk),
            still,
            video.title,
            " · ".join(fact for fact in facts if fact),
        )

    @admin.display(description="status", ordering="status")
    def state(self, video: Video) -> SafeString:
        return live_badge(video.status, f"video.{video.pk}.status")

    @admin.display
    def progress(self, video: Any) -> SafeString:
        running = next(iter(video.under_way), None)
        return format_html(
            '<div data-live-show="video.{id}.running"{hidden}>{bar}</div>'
            '<div class="sp-error sp-clip" title="{error}" data-live="video.{id}.error">{error}</div>',
            id=video.pk,
            hidden="" if running else SafeString(" hidden"),
            bar=bar(running.progress_percent if running else 0, f"video.{video.pk}.percent"),
            error=video.error_message[:300],
        )

    @admin.display(description="uploaded", ordering="created_at")
    def created(self, video: Video) -> str:
        return moment(video.created_at)


def _list_live(model_admin: VideoAdmin, request: HttpRequest) -> HttpResponseBase:
    if not model_admin.has_view_or_change_permission(request):
        raise PermissionDenied
    try:
        topic = live_topics.list_topic(request.GET.getlist("video"))
    except BadTopic as problem:
        return HttpResponse(str(problem), status=400, content_type="text/plain")
    return live.stream(request, [topic])


# -- on a selection ----------------------------------------------------------------------------------------------------


def _act_on_all(model_admin: VideoAdmin, request: HttpRequest, queryset: Any, verb: Verb) -> None:
    """Each video by itself: one that refuses does not keep the others from it."""
    order = Order(actor=request.user.get_username())
    done: dict[str, str] = {}
    left_alone = Counter[str]()
    for video in queryset:
        if obstacle := verb.obstacle(situation_of(video)):
            left_alone[obstacle] += 1
            continue
        name = video.title  # a purged video has no row for the log to name
        try:
            verb.do(video, order)
        except (VideosError, TransitionRefused) as refusal:
            tag = video_page.refused_tag(refusal)
            model_admin.message_user(request, str(refusal), messages.ERROR, extra_tags=tag)
        else:
            done[video.pk] = name
    log_rows(request, Video, list(done), verb.done, done)
    if done:
        count = "1 video was" if len(done) == 1 else f"{len(done):,} videos were"
        tag = f"done_{verb.name}"
        model_admin.message_user(request, f"{count} {verb.done}.", messages.SUCCESS, extra_tags=tag)
    for obstacle, number in left_alone.items():
        count = "1 video" if number == 1 else f"{number:,} videos"
        said = f"{count} could not be {verb.done}: {obstacle}."
        model_admin.message_user(request, said, messages.WARNING, extra_tags="not_possible")


def _ask(model_admin: VideoAdmin, request: HttpRequest, queryset: Any, verb: Verb) -> HttpResponse:
    context = {
        **model_admin.admin_site.each_context(request),
        "title": f"{verb.label}: are you sure?",
        "opts": model_admin.opts,
        "media": model_admin.media,
        "verb": verb,
        "count": queryset.count(),
        "sample": [video.title for video in queryset[:10]],
        "selected": request.POST.getlist(ACTION_CHECKBOX_NAME),
        "across": request.POST.get("select_across", "0"),
        "checkbox_name": ACTION_CHECKBOX_NAME,
        "back": reverse("admin:videos_video_changelist", current_app=model_admin.admin_site.name),
    }
    return TemplateResponse(request, "admin/videos/video/confirm.html", context)
