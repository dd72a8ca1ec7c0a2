"""Channels: list, find, create, and what they hold, by status."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, Any

from django.db.models import Count, Q
from django.http import HttpRequest
from django.utils.text import slugify
from ninja import Path, Query, Router, Status

from jobs import database
from jobs.api.errors import refusals
from jobs.refusal import Refusal
from videos.access import VIEW
from videos.action_log import log_addition
from videos.api.authentication import NOT_STAFF, staff
from videos.api.errors import refuse_unknown
from videos.api.schemas import (
    LARGEST_ID,
    ChannelDetail,
    ChannelFilters,
    ChannelForm,
    ChannelMade,
    ChannelPage,
    Narrowed,
    VideoPage,
)
from videos.api.videos import page_of
from videos.models import Channel, Video, VideoStatus

router = Router(tags=["channels"])

SEE = ("videos.view_channel", "videos.change_channel")
_LONGEST_SLUG = 150

Id = Annotated[int, Path(description="the id of the channel", ge=1, le=LARGEST_ID)]


class StaffRequest(HttpRequest):
    user: Any


# -- many --------------------------------------------------------------------------------------------------------------


@router.get(
    "channels",
    response={200: ChannelPage, **refusals(*NOT_STAFF, 422)},
    auth=staff(*SEE),
    summary="List channels",
    operation_id="list_channels",
)
def channels(request: StaffRequest, filters: Query[ChannelFilters]) -> ChannelPage:
    """A page at a time, each with how many videos of each status it has; `slug` finds one by its slug."""
    refuse_unknown(request.GET, ChannelFilters.model_fields)
    matching = Channel.objects.filter(pk__gt=filters.cursor)
    if filters.slug:
        matching = matching.filter(slug=filters.slug)
    if filters.q:
        matching = matching.filter(Q(name__icontains=filters.q) | Q(slug__icontains=filters.q))
    rows = list(matching.order_by("pk")[: filters.limit + 1])
    shown = rows[: filters.limit]
    counts = _counts(shown)
    return ChannelPage(
        channels=[ChannelDetail.of(row, counts[row.pk]) for row in shown],
        next=shown[-1].pk if len(rows) > filters.limit else None,
    )


def _counts(channels: list[Channel]) -> dict[int, dict[str, int]]:
    """Videos by status, of all these channels in one query."""
    counts: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(VideoStatus.values, 0))
    kept = Video.objects.kept().filter(channel__in=channels).order_by()
    for channel_id, status, number in kept.values_list("channel", "status").annotate(Count("pk")):
        counts[channel_id][status] = number
    return counts


@router.post(
    "channels",
    response={(200, 201): ChannelMade, **refusals(*NOT_STAFF, 400, 409, 413, 422)},
    auth=staff("videos.add_channel"),
    summary="Create a channel",
    operation_id="create_channel",
)
def create(request: StaffRequest, form: ChannelForm) -> Status[ChannelMade]:
    """Sent again, it answers 200 with the channel that is there. 409: another channel has this slug."""
    slug = form.slug or slugify(form.name)[:_LONGEST_SLUG].strip("-")
    if not slug or slug.isdecimal():
        raise Refusal(422, "invalid", "slug: Field required: none can be made of this name")

    def write() -> tuple[Channel, bool]:
        with database.atomic():
            return Channel.objects.get_or_create(slug=slug, defaults={"name": form.name})

    channel, created = database.when_unlocked(write)
    if channel.name != form.name:
        raise Refusal(409, "slug_taken", f"slug: The channel “{channel.name}” has the slug {slug!r} already.")
    if created:
        log_addition(request.user, channel, "created over the API")
    return Status(201 if created else 200, ChannelMade(channel=ChannelDetail.of(channel), created=created))


# -- one ---------------------------------------------------------------------------------------------------------------


def _find(channel_id: int) -> Channel:
    found = Channel.objects.filter(pk=channel_id).first()
    if found is None:
        raise Refusal(404, "not_found", "There is no such channel.")
    return found


@router.get(
    "channels/{channel_id}",
    response={200: ChannelDetail, **refusals(*NOT_STAFF, 404, 422)},
    auth=staff(*SEE),
    summary="Show a channel",
    operation_id="show_channel",
)
def channel(request: HttpRequest, channel_id: Id) -> ChannelDetail:
    """With how many videos of each status it has; those in the bin do not count."""
    return ChannelDetail.of(_find(channel_id))


@router.get(
    "channels/{channel_id}/videos",
    response={200: VideoPage, **refusals(*NOT_STAFF, 404, 422)},
    auth=staff(*VIEW),
    summary="List the videos of a channel",
    operation_id="list_videos_of_channel",
)
def videos(request: HttpRequest, channel_id: Id, wanted: Query[Narrowed]) -> VideoPage:
    """As the list of all videos."""
    refuse_unknown(request.GET, Narrowed.model_fields)
    return page_of(Video.objects.filter(channel=_find(channel_id)), wanted)
