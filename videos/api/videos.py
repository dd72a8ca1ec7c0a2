"""Videos: list, upload, show, change, and the verbs of the admin's buttons."""

from __future__ import annotations

from typing import Annotated, Any

from django.db import IntegrityError
from django.db.models import Count, Q
from django.http import HttpRequest
from ninja import File, Form, Path, Query, Router, Status
from ninja.decorators import decorate_view
from ninja.files import UploadedFile

from jobs import database
from jobs.api.errors import refusals
from jobs.refusal import Refusal
from jobs.ulid import is_ulid
from videos import intake
from videos.access import CHANGE, UPLOAD, VIEW
from videos.action_log import log_addition, log_change
from videos.api.authentication import NOT_STAFF, staff
from videos.api.errors import refuse_unknown
from videos.api.receiving import Received, into_incoming
from videos.api.schemas import (
    Counts,
    Filters,
    Narrowed,
    RetranscodeOrder,
    RetryOrder,
    Uploaded,
    UploadForm,
    VideoChange,
    VideoDetail,
    VideoPage,
    VideoRow,
)
from videos.exceptions import UploadRefused
from videos.models import Channel, Video, VideoStatus
from videos.refusal import refusing_uploads
from videos.resumable.uploads import channel_called
from videos.verbs import DELETE, RESTORE, RETRANSCODE, RETRY, RETRY_QUALITY, Order, Verb, situation_of, which

router = Router(tags=["videos"])

_VERB = {200: VideoDetail, **refusals(*NOT_STAFF, 400, 404, 409, 422)}

Id = Annotated[str, Path(description="the id of the video")]


class StaffRequest(HttpRequest):
    user: Any


# -- many --------------------------------------------------------------------------------------------------------------


@router.get(
    "videos",
    response={200: VideoPage, **refusals(*NOT_STAFF, 422)},
    auth=staff(*VIEW),
    summary="List videos",
    operation_id="list_videos",
)
def videos(request: StaffRequest, filters: Query[Filters]) -> VideoPage:
    """Newest first, a page at a time, with how many there are of each status."""
    refuse_unknown(request.GET, Filters.model_fields)
    matching = Video.objects.filter(channel=filters.channel) if filters.channel else Video.objects.all()
    return page_of(matching, filters)


def page_of(matching: Any, wanted: Narrowed) -> VideoPage:
    if wanted.deleted != "any":
        matching = matching.filter(deleted_at__isnull=wanted.deleted == "no")
    if wanted.visibility:
        matching = matching.filter(visibility=wanted.visibility)
    if wanted.owner:
        matching = matching.filter(owner=wanted.owner)
    if wanted.q:
        matching = matching.filter(Q(title__icontains=wanted.q) | Q(slug__icontains=wanted.q))
    counts = dict(matching.order_by().values_list("status").annotate(Count("pk")))
    if wanted.status:
        matching = matching.filter(status=wanted.status)
    if wanted.cursor:
        matching = matching.filter(pk__lt=wanted.cursor)
    rows = list(matching.order_by("-pk")[: wanted.limit + 1])
    return VideoPage(
        videos=[VideoRow.model_validate(row) for row in rows[: wanted.limit]],
        counts=Counts(**{**dict.fromkeys(VideoStatus.values, 0), **counts}),
        next=rows[wanted.limit - 1].pk if len(rows) > wanted.limit else None,
    )


@router.post(
    "videos",
    response={(200, 201): Uploaded, **refusals(*NOT_STAFF, 400, 413, 422, 507)},
    auth=staff(UPLOAD),
    summary="Upload a video",
    operation_id="upload_video",
)
@decorate_view(into_incoming)
def upload(request: StaffRequest, form: Form[UploadForm], file: File[UploadedFile]) -> Status[Uploaded]:
    """One file in a form (multipart/form-data). For large ones see the resumable uploads in docs/uploads.md."""
    refuse_unknown(request.POST, {*UploadForm.model_fields, "csrfmiddlewaretoken"})
    refuse_unknown(request.FILES, {"file"})
    if not isinstance(file, Received):
        raise Refusal(422, "invalid", "file: Field required")
    with refusing_uploads():
        wanted = intake.what_is_wanted(
            file.upload.name,
            channel_called(form.channel),
            title=form.title,
            slug=form.slug or None,
            owner=request.user.get_username(),
            visibility=form.visibility,
            same_content_once=form.same_content_once,
        )
        video = intake.admit(file.upload, wanted)
    if video.created:
        log_addition(request.user, video, f"uploaded {video.source_name}")
    answer = Uploaded(video=VideoDetail.of(find_video(video.pk)), created=video.created)
    return Status(201 if video.created else 200, answer)


# -- one ---------------------------------------------------------------------------------------------------------------


def find_video(video_id: str) -> Video:
    rows = Video.objects.select_related("channel", "current").defer("current__plan")
    video: Video | None = rows.filter(pk=video_id).first() if is_ulid(video_id) else None
    if video is None:
        raise Refusal(404, "not_found", "There is no such video. It may have been purged.")
    return video


@router.get(
    "videos/{video_id}",
    response={200: VideoDetail, **refusals(*NOT_STAFF, 404)},
    auth=staff(*VIEW),
    summary="Show a video",
    operation_id="show_video",
)
def video(request: StaffRequest, video_id: Id) -> VideoDetail:
    """With its progress, and what can be done with it now."""
    return VideoDetail.of(find_video(video_id))


@router.patch(
    "videos/{video_id}",
    response={200: VideoDetail, **refusals(*NOT_STAFF, 400, 404, 409, 422)},
    auth=staff(CHANGE),
    summary="Change a video",
    operation_id="change_video",
)
def change(request: StaffRequest, video_id: Id, changes: VideoChange) -> VideoDetail:
    """Fields that are not named stay as they are."""
    found = find_video(video_id)
    values = changes.model_dump(include=changes.model_fields_set)
    if "channel" in values and not Channel.objects.filter(pk=values["channel"]).exists():
        raise Refusal(422, "invalid", "channel: There is no such channel.")
    changed = {name: value for name, value in values.items() if value != _present(found, name)}
    if changed:
        _change(found, changed)
        log_change(request.user, video_id, found.title, f"changed {', '.join(sorted(changed))}")
    return VideoDetail.of(find_video(video_id))


def _present(video: Video, name: str) -> Any:
    return video.channel_id if name == "channel" else getattr(video, name)


def _change(video: Video, changed: dict[str, Any]) -> None:
    def write() -> None:
        with database.atomic():
            Video.objects.filter(pk=video.pk).update(**changed)

    try:
        database.when_unlocked(write)
    except IntegrityError:
        raise Refusal(
            409, "not_possible", f"channel: It has a video {video.handle!r} already, or is gone by now."
        ) from None


@router.delete(
    "videos/{video_id}",
    response={204: None, **refusals(*NOT_STAFF, 404, 409)},
    auth=staff(CHANGE),
    summary="Delete a video",
    operation_id="delete_video",
)
def delete(request: StaffRequest, video_id: Id) -> Status[None]:
    """Moves it to the bin and stops its jobs; restore brings it back."""
    _act(request, video_id, DELETE)
    return Status(204, None)


@router.post(
    "videos/{video_id}/retry",
    response=_VERB,
    auth=staff(CHANGE),
    summary="Retry a video",
    operation_id="retry_video",
)
def retry(request: StaffRequest, video_id: Id, order: RetryOrder | None = None) -> VideoDetail:
    """Runs again what has failed; what is finished is kept."""
    if order is not None and order.quality:
        return _act(request, video_id, RETRY_QUALITY, (order.quality,))
    return _act(request, video_id, RETRY)


@router.post(
    "videos/{video_id}/retranscode",
    response=_VERB,
    auth=staff(CHANGE),
    summary="Re-encode a video",
    operation_id="retranscode_video",
)
def retranscode(request: StaffRequest, video_id: Id, order: RetranscodeOrder | None = None) -> VideoDetail:
    """Viewers keep the present version until the new one is whole.

    Without `qualities` all are encoded again. With them these are, and the other published ones are taken over as they
    are: `transcode.encoded` and `transcode.kept` of the answer name both. 409 where the others cannot be kept
    (`published_damaged`, `plan_unusable`) or the source is too small for all that were chosen (`above_source`).
    """
    order = order or RetranscodeOrder()
    return _act(request, video_id, RETRANSCODE, tuple(order.qualities), order.subtitles)


@router.post(
    "videos/{video_id}/restore",
    response=_VERB,
    auth=staff(CHANGE),
    summary="Restore a video",
    operation_id="restore_video",
)
def restore(request: StaffRequest, video_id: Id) -> VideoDetail:
    """Brings it back from the bin; what was never finished goes on."""
    return _act(request, video_id, RESTORE)


def _act(
    request: StaffRequest,
    video_id: str,
    verb: Verb,
    qualities: tuple[str, ...] = (),
    subtitles: bool = False,
) -> VideoDetail:
    """As a button of the admin does, and as little where it would not be there."""
    found = find_video(video_id)
    try:
        intake.check_qualities(qualities)
    except UploadRefused as refusal:
        raise Refusal(422, "invalid", f"qualities: {refusal}") from None
    if obstacle := verb.obstacle(situation_of(found)):
        raise Refusal(409, "not_possible", f"“{found.title}” cannot be {verb.done}: {obstacle}.")
    order = Order(request.user.get_username(), qualities, subtitles)
    with refusing_uploads():
        outcome = verb.do(found, order)
    log_change(request.user, video_id, found.title, f"{verb.done}{which(order, outcome)}")
    return VideoDetail.of(find_video(video_id))
