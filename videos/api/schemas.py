"""The contract of the API: videos and channels as staff see them, and what may be said about them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.utils.text import slugify
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from jobs.payloads import storable
from jobs.ulid import PATTERN
from videos import live_topics
from videos.models import Channel, QualityStatus, Transcode, Video
from videos.verbs import VERBS, failed_stages, situation_of

Status = Literal["pending", "processing", "ready", "failed"]
Visibility = Literal["public", "unlisted", "private"]
Bin = Literal["no", "yes", "any"]
LARGEST_ID = 2**63 - 1


def _plain(text: str) -> str:
    if storable(text) != text:
        raise ValueError("Text may not contain NUL or half a character")
    return text


def _title(text: str) -> str:
    title = " ".join(_plain(text).split())
    if not title:
        raise ValueError("Text has at least one letter")
    return title


def _channel_slug(text: str) -> str:
    """Digits alone would be taken for an id where a channel is named by either."""
    if text and (slugify(text) != text or text.isdecimal()):
        raise ValueError("Use small letters, digits and hyphens, and at least one letter")
    return text


def _whole(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("Input should be a whole number")
    return value


Text = Annotated[str, AfterValidator(_plain)]
Title = Annotated[str, Field(max_length=300), AfterValidator(_title)]
ChannelName = Annotated[str, Field(max_length=200), AfterValidator(_title)]
ChannelSlug = Annotated[str, Field(max_length=150), AfterValidator(_channel_slug)]
ChannelId = Annotated[int, Field(ge=1, le=LARGEST_ID), BeforeValidator(_whole)]


class _Shown(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid")


# -- shown -------------------------------------------------------------------------------------------------------------


class VideoRow(_Shown):
    id: str
    channel_id: int
    title: str
    slug: str
    owner: str = Field(description="the user name of the uploader")
    status: Status
    visibility: Visibility
    error_message: str
    warning: str
    source_name: str
    source_bytes: int
    source_sha256: str
    duration: float | None = Field(description="seconds")
    width: int | None
    height: int | None
    fps: float | None
    video_codec: str
    audio_codec: str
    created_at: datetime
    published_at: datetime | None
    deleted_at: datetime | None


class Quality(BaseModel):
    quality: str
    status: str
    percent: float


class TranscodeDetail(BaseModel):
    """One (re)encoding of a video: a version of it."""

    number: int
    status: str
    error: str = Field(description="why it has failed, also where the video stays ready from an earlier one")
    failed_stages: list[str] = Field(
        description="job types that have failed; a published version does without them until they are retried"
    )
    encoded: list[str] = Field(description="the qualities that it encodes; empty until they are known")
    kept: list[str] = Field(description="those that it takes over from the version `based_on`")
    based_on: int | None
    created_at: datetime
    published_at: datetime | None

    @classmethod
    def of(cls, transcode: Transcode) -> TranscodeDetail:
        made = transcode.qualities.exclude(status=QualityStatus.SKIPPED)
        made = made.exclude(quality__in=transcode.kept_qualities)
        return cls(
            number=transcode.number,
            status=transcode.status,
            error=transcode.error,
            failed_stages=failed_stages(transcode),
            encoded=list(made.values_list("quality", flat=True)) or transcode.requested_qualities,
            kept=transcode.kept_qualities,
            based_on=transcode.based_on,
            created_at=transcode.created_at,
            published_at=transcode.published_at,
        )


class VideoDetail(VideoRow):
    generation: int | None = Field(description="the version that viewers get")
    transcode: TranscodeDetail | None = Field(description="the newest, published or not")
    percent: float = Field(description="how far the newest transcode is")
    step: str
    eta: datetime | None
    qualities: list[Quality]
    subtitles: list[str] = Field(description="languages")
    possible: list[str] = Field(description="what can be done with it now: retry, retranscode, …")

    @classmethod
    def of(cls, video: Video) -> VideoDetail:
        newest = video.transcodes.order_by("-number").first()
        standing, now = live_topics.standing_of(video, newest), situation_of(video, newest)
        return cls(
            **VideoRow.model_validate(video).model_dump(),
            generation=video.current.number if video.current else None,
            transcode=TranscodeDetail.of(newest) if newest else None,
            percent=round(standing.percent, 1),
            step=standing.step,
            eta=standing.eta,
            qualities=[
                Quality(quality=share.quality, status=share.status, percent=round(share.percent, 1))
                for share in standing.qualities
            ],
            subtitles=sorted(video.subtitles.values_list("language", flat=True)),
            possible=[verb.name for verb in VERBS if verb.is_possible(now)],
        )


class Counts(BaseModel):
    pending: int
    processing: int
    ready: int
    failed: int


class VideoPage(BaseModel):
    videos: list[VideoRow] = Field(description="newest first")
    counts: Counts = Field(description="of all that match, whatever their status")
    next: str | None = Field(description="the cursor of the next page; null: this is the last")


class Uploaded(BaseModel):
    video: VideoDetail
    created: bool = Field(description="false: it was there already")


class ChannelDetail(_Shown):
    id: int
    name: str
    slug: str
    created_at: datetime
    counts: Counts

    @classmethod
    def of(cls, channel: Channel, counts: dict[str, int] | None = None) -> ChannelDetail:
        """Who has counted already gives the counts."""
        return cls(
            id=channel.pk,
            name=channel.name,
            slug=channel.slug,
            created_at=channel.created_at,
            counts=Counts(**(channel.summary() if counts is None else counts)),
        )


class ChannelPage(BaseModel):
    channels: list[ChannelDetail] = Field(description="by id")
    next: int | None = Field(description="the cursor of the next page; null: this is the last")


class ChannelMade(BaseModel):
    channel: ChannelDetail
    created: bool = Field(description="false: it was there already")


class SubtitleRow(_Shown):
    language: str
    label: str
    source: Literal["uploaded", "embedded", "recognised"]
    stored_at: datetime


class SubtitleList(BaseModel):
    subtitles: list[SubtitleRow] = Field(description="by language")


class Storage(BaseModel):
    free_bytes: int
    total_bytes: int


class Processing(BaseModel):
    """Of videos that are not in the bin."""

    videos: Counts
    active_transcodes: int
    unfinished_uploads: int
    published_last_day: int
    failed_last_day: int = Field(description="transcodes")


class VideosHealth(BaseModel):
    status: Literal["ok", "failing"]
    reasons: list[str]
    storage: Storage | None = Field(None, description="for staff who may see videos")
    processing: Processing | None = Field(None, description="for staff who may see videos")


# -- given -------------------------------------------------------------------------------------------------------------


class Narrowed(_Given):
    """Which videos of a channel."""

    status: Status | None = None
    visibility: Visibility | None = None
    deleted: Bin = Field("no", description="what is in the bin: no, only that, or both")
    owner: Annotated[Text, Field(max_length=200)] = ""
    q: Annotated[Text, Field(max_length=200)] = Field("", description="a part of the title or the address")
    cursor: Annotated[str, Field(pattern=rf"^({PATTERN})?$")] = Field(
        "", description="`next` of the page before"
    )
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class Filters(Narrowed):
    channel: ChannelId | None = None


class ChannelFilters(_Given):
    slug: Annotated[Text, Field(max_length=200)] = Field(
        "", description="the channel that has exactly this slug"
    )
    q: Annotated[Text, Field(max_length=200)] = Field("", description="a part of the name or the slug")
    cursor: Annotated[int, Field(ge=0, le=LARGEST_ID)] = Field(0, description="`next` of the page before")
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class ChannelForm(_Given):
    name: ChannelName
    slug: ChannelSlug = Field("", description="its address, /c/<slug>/; empty: from the name")


class SubtitleOptions(_Given):
    label: Annotated[Text, Field(max_length=100)] = Field(
        "", description="what viewers choose them by; empty: the language"
    )


class UploadForm(_Given):
    channel: Annotated[Text, Field(max_length=200)] = Field(description="its id or its slug")
    title: Annotated[Text, Field(max_length=300)] = Field("", description="empty: from the file's name")
    slug: Annotated[str, Field(max_length=150)] = Field(
        "", description="names the video in its channel; empty: from the title"
    )
    visibility: Visibility = "public"
    same_content_once: bool = Field(
        False, description="a file that the channel has already is not added again"
    )


class VideoChange(_Given):
    """What may be changed; everything else follows from the file."""

    # What is not named is not looked at, and the document must not promise a default.
    title: Title = Field(default_factory=str)
    visibility: Visibility = Field(default_factory=lambda: "public")
    channel: ChannelId = Field(default_factory=int, description="its id")
    owner: Annotated[Text, Field(max_length=200)] = Field(default_factory=str)


class RetryOrder(_Given):
    quality: Annotated[Text, Field(max_length=20)] = Field(
        "", description="one that has failed; empty: all that has"
    )


class RetranscodeOrder(_Given):
    qualities: Annotated[list[Annotated[Text, Field(max_length=20)]], Field(max_length=20)] = Field(
        default_factory=list,
        description="the ones to encode again; the other published ones are taken over. Empty: all",
    )
    subtitles: bool = Field(default=False, description="recognise speech again, too")
