"""Resumable uploads: begin, go on, end, expire. Of what has arrived the disk knows; the rows know whose it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, Sum
from django.db.models.expressions import Combinable
from django.db.models.functions import Now

from jobs import database, enqueue
from jobs.refusal import Refusal
from jobs.ulid import new_ulid
from videos import conf, intake, storage
from videos.models import Channel, ResumableUpload, Video, Visibility
from videos.refusal import refusing_uploads
from videos.resumable.arriving import Arriving, Busy, Mismatch, Pen
from videos.resumable.protocol import Checksum, read_metadata

REMOVAL = "videos.remove_upload"
BUSY_STILL = timedelta(minutes=1)
_QUOTA_LOCK = 0x53505255


@dataclass(frozen=True)
class Wish:
    """What the metadata say about the video to be. Keys that are not ours are other clients' own."""

    name: str
    title: str
    channel: str
    slug: str | None
    visibility: str

    @classmethod
    def read(cls, metadata: str) -> Wish:
        given = read_metadata(metadata)
        return cls(
            name=intake.plain_name(given.get("filename") or given.get("name") or "") or "video",
            title=given.get("title", ""),
            channel=given.get("channel", ""),
            slug=given.get("slug"),
            visibility=given.get("visibility") or Visibility.PUBLIC,
        )

    def check(self, owner: str) -> intake.Wanted:
        """Raises UploadRefused."""
        channel = channel_called(self.channel)
        return intake.what_is_wanted(
            self.name, channel, title=self.title, slug=self.slug, owner=owner, visibility=self.visibility
        )


def channel_called(given: str) -> Channel:
    """A channel by its id or its slug."""
    found = None
    if given.isascii() and given.isdecimal() and len(given) < 19:
        found = Channel.objects.filter(pk=int(given)).first()
    elif given and "\0" not in given:
        found = Channel.objects.filter(slug=given).first()
    if found is None:
        raise Refusal(422, "invalid", "channel: there is no such channel; name one by its id or its slug.")
    return found


def arriving(upload: ResumableUpload) -> Arriving:
    return Arriving(upload.pk, Wish.read(upload.metadata).name, upload.length)


def find(upload_id: str, owner: str) -> ResumableUpload:
    """Other people's uploads are not there, for all one knows."""
    try:
        storage.incoming(upload_id)
    except storage.NoSuchName:
        raise _unknown() from None
    upload: ResumableUpload | None = ResumableUpload.objects.filter(pk=upload_id, owner=owner).first()
    if upload is None:
        raise _unknown()
    if upload.expires_at <= database.read_clock():
        raise Refusal(410, "expired", "The upload has expired; begin it anew.")
    return upload


def _unknown() -> Refusal:
    return Refusal(404, "not_found", "There is no such upload; it may have ended or expired.")


def offset_of(upload: ResumableUpload) -> int:
    return upload.length if upload.finished_at else arriving(upload).offset()


# -- begin -------------------------------------------------------------------------------------------------------------


def create(owner: str, length: int, metadata: str) -> ResumableUpload:
    wish = Wish.read(metadata)
    with refusing_uploads():
        wish.check(owner)
    limit = conf.current().upload_max_bytes
    if length > limit:
        raise Refusal(413, "too_large", f"The file is larger than {limit:,} bytes, which is the limit here.")
    if not length:
        raise Refusal(422, "refused", "The file is empty.")
    _refuse_without_room(length)
    upload_id = new_ulid()
    place = Arriving(upload_id, wish.name, length)

    def write() -> ResumableUpload:
        with database.atomic():
            _refuse_over_quota(owner, length)
            upload: ResumableUpload = ResumableUpload.objects.create(
                pk=upload_id, owner=owner, length=length, metadata=metadata, expires_at=_expiry()
            )
            _plan_removal(upload_id, conf.current().upload_expiry)
            place.prepare()
        upload.refresh_from_db()
        return upload

    try:
        with refusing_uploads():
            return database.when_unlocked(write)
    except BaseException:
        place.remove()
        raise


def _refuse_without_room(size: int) -> None:
    if storage.capacity()[0] < size + conf.current().min_free_bytes:
        raise Refusal(507, "no_room", intake.NO_ROOM)


def _refuse_over_quota(owner: str, length: int) -> None:
    """In a transaction, and for one request of an owner at a time: on SQLite it is the only writer anyway."""
    if database.is_postgres():
        database.fetch("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_QUOTA_LOCK, owner])
    settings = conf.current()
    held = (
        ResumableUpload.objects.unfinished()
        .filter(owner=owner)
        .aggregate(files=Count("pk"), bytes=Sum("length"))
    )
    if held["files"] >= settings.upload_quota_files:
        raise Refusal(
            413,
            "quota_exceeded",
            f"You have {held['files']} unfinished uploads, as many as you may; finish or delete one first.",
        )
    if (held["bytes"] or 0) + length > settings.upload_quota_bytes:
        raise Refusal(
            413,
            "quota_exceeded",
            f"Your unfinished uploads may have {settings.upload_quota_bytes:,} bytes together; "
            "finish or delete one first.",
        )


def _expiry() -> Combinable:
    return database.now_plus(conf.current().upload_expiry)


# -- go on -------------------------------------------------------------------------------------------------------------


def append(
    upload: ResumableUpload, *, offset: int, size: int, blocks: Iterable[bytes], checksum: Checksum | None
) -> int:
    """Write what arrives at this offset. Where to go on; the length, when the upload has become a video."""
    if upload.finished_at:
        raise Refusal(409, "wrong_offset", f"The upload is finished: it has all {upload.length} bytes.")
    with _turn(upload) as pen:
        pen.cut(arriving(upload).offset())
        if pen.offset != offset:
            raise Refusal(409, "wrong_offset", f"Upload-Offset: {pen.offset} bytes are here, not {offset}.")
        if offset + size > upload.length:
            raise Refusal(
                413, "too_large", f"The upload was announced with {upload.length} bytes; this goes beyond."
            )
        _refuse_without_room(size)
        _give_time(upload)  # before too: what is interrupted has come so far
        try:
            pen.receive(blocks, checksum)
        except Mismatch:
            raise Refusal(
                460, "checksum_mismatch", "Upload-Checksum: other bytes have arrived; they were discarded."
            ) from None
        _give_time(upload)
        if pen.offset == upload.length:
            _finish(upload, pen)
        upload.refresh_from_db()
        return pen.offset


def _give_time(upload: ResumableUpload) -> None:
    row = ResumableUpload.objects.filter(pk=upload.pk)
    database.when_unlocked(lambda: row.update(expires_at=_expiry()))


@contextlib.contextmanager
def _turn(upload: ResumableUpload) -> Iterator[Pen]:
    place = arriving(upload)
    try:
        with refusing_uploads(), place.writing() as pen:
            now = ResumableUpload.objects.filter(pk=upload.pk).first()
            if now is None or now.finished_at:  # it ended while we waited for our turn, and its folder went
                place.remove()
                raise _unknown() if now is None else Refusal(409, "wrong_offset", "The upload is finished.")
            yield pen
    except Busy:
        raise Refusal(
            423,
            "locked",
            "Somebody else is sending this upload; try again soon.",
            headers={"Retry-After": "1"},
        ) from None


def _finish(upload: ResumableUpload, pen: Pen) -> None:
    """The file is whole: it becomes a video, or is refused and leaves nothing."""
    pen.keep()
    wish = Wish.read(upload.metadata)

    def note(video: Video) -> None:
        ResumableUpload.objects.filter(pk=upload.pk).update(
            finished_at=Now(), video=video, is_new=video.created, expires_at=_expiry()
        )

    try:
        with refusing_uploads():
            intake.admit(intake.arrived(upload.pk, wish.name), wish.check(upload.owner), note=note)
    except Refusal as refusal:
        if refusal.status == 422:
            _forget(upload)
        raise
    storage.remove(storage.incoming(upload.pk))


# -- end ---------------------------------------------------------------------------------------------------------------


def terminate(upload: ResumableUpload) -> None:
    """A finished upload is only forgotten: its video stays."""
    if upload.finished_at:
        _forget(upload)
        return
    with _turn(upload):
        _forget(upload)


def _forget(upload: ResumableUpload) -> None:
    """The row first: whoever comes next finds no upload, rather than one without its file. Should we die in between,
    the job that was planned when it began removes the folder."""
    ResumableUpload.objects.filter(pk=upload.pk).delete()
    storage.remove(storage.incoming(upload.pk))


def _plan_removal(upload_id: str, delay: timedelta, turn: int = 0) -> None:
    enqueue(
        REMOVAL, upload_id=upload_id, turn=turn, delay=delay, unique_key=f"{REMOVAL}:{upload_id}:{turn % 2}"
    )


def remove_expired(upload_id: str, turn: int = 0) -> bool:
    """Remove an upload whose time is over, or plan to come back; whether it is gone."""
    upload = ResumableUpload.objects.filter(pk=upload_id).first()
    if upload is None:
        storage.remove(storage.incoming(upload_id))
        return True
    left = upload.expires_at - database.read_clock()
    if left > timedelta(0):
        _plan_removal(upload_id, left, turn + 1)
        return False
    try:
        with arriving(upload).writing():
            _forget(upload)
    except Busy:
        _plan_removal(upload_id, BUSY_STILL, turn + 1)
        return False
    return True


def expired() -> list[str]:
    """Those whose removal is overdue: nobody runs jobs, or somebody has discarded theirs."""
    overdue = ResumableUpload.objects.filter(expires_at__lt=database.now_minus(BUSY_STILL))
    return list(overdue.values_list("pk", flat=True))
