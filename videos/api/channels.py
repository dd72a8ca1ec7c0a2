"""Channels: what they hold, by status."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest
from ninja import Path, Query, Router

from jobs.api.errors import refusals
from jobs.refusal import Refusal
from videos.access import VIEW
from videos.api.authentication import NOT_STAFF, staff
from videos.api.errors import refuse_unknown
from videos.api.schemas import LARGEST_ID, ChannelDetail, Narrowed, VideoPage
from videos.api.videos import page_of
from videos.models import Channel, Video

router = Router(tags=["channels"])


Id = Annotated[int, Path(description="the id of the channel", ge=1, le=LARGEST_ID)]


def _find(channel_id: int) -> Channel:
    found = Channel.objects.filter(pk=channel_id).first()
    if found is None:
        raise Refusal(404, "not_found", "There is no such channel.")
    return found


@router.get(
    "channels/{channel_id}",
    response={200: ChannelDetail, **refusals(*NOT_STAFF, 404, 422)},
    auth=staff("videos.view_channel", "videos.change_channel"),
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
