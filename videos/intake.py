"""Accept an upload, or refuse it: what is not a playable video leaves no row and no file.

    video = accept(Path("holiday.mp4"), channel=channel)
    video.created     False: the channel has this video already

The file is copied (and its checksum taken) into ROOT/incoming, looked at there, and moved to its final place before
the one transaction that creates the video, its first generation and its first job.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from django.db import IntegrityError
from django.utils.text import slugify

from jobs import database
from jobs.payloads import storable
from jobs.ulid import new_ulid
from videos import conf, depot, pipeline, storage
from videos.exceptions import NotNow, UploadRefused
from videos.local_files import open_file
from videos.media.examine import examine
from videos.media.exceptions import NotPlayable
from videos.media.ladder import LADDER
from videos.media.source import SourceInfo
from videos.models import Channel, Transcode, Video, Visibility
from videos.sent_sources import sent_source, withdraw
from videos.subtitling import Captions, one_per_language, store_captions

BLOCK = 1 << 20
LONGEST_NAME = 300
ADDRESSES_TRIED = 1000
NO_ROOM = "There is no room left to store the file; try again later."


@dataclass(frozen=True)
class Upload:
    """A file in ROOT/incoming: whole, but not a video yet."""

    id: str
    name: str
    size: int
    sha256: str

    @property
    def path(self) -> Path:
        return storage.incoming(self.id) / storage.safe_name(self.name)


@dataclass(frozen=True)
class Wanted:
    """What the uploader has asked for."""

    channel: Channel
    title: str
    handle: str
    chosen: bool
    """The handle was given, not derived from the title: then it alone says which video is meant."""
    owner: str
    visibility: str
    same_content_once: bool
    qualities: tuple[str, ...]
    captions: tuple[Captions, ...]


class Wishes(TypedDict, total=False):
    """What an uploader may ask for; all of it has a default."""

    title: str
    slug: str | None
    owner: str
    visibility: str
    same_content_once: bool
    qualities: Sequence[str]
    captions: Sequence[Captions]
    """Stored with the video, in the same transaction; one that is there already keeps its own."""


def accept(path: Path, *, channel: Channel, **wishes: Unpack[Wishes]) -> Video:
    """Make a video of a file on this machine; the file itself stays where it is. Raises UploadRefused."""
    wanted = what_is_wanted(path.name, channel, **wishes)
    if wanted.chosen and (existing := _same_handle(wanted)):
        return existing
    with received(_blocks(path), name=path.name) as upload:
        return admit(upload, wanted)


def accept_stream(blocks: Iterable[bytes], *, name: str, channel: Channel, **wishes: Unpack[Wishes]) -> Video:
    """The same for bytes that arrive over the wire; no more than a block of them is held in memory."""
    wanted = what_is_wanted(name, channel, **wishes)
    with received(blocks, name=name) as upload:
        return admit(upload, wanted)


def channel_named(slug: str) -> Channel:
    """The channel with this slug; made if there is none. Raises UploadRefused."""
    if not slug or slug != slugify(slug) or len(slug) > 150:
        raise UploadRefused(
            f"{slug!r} is no channel's slug; use letters, digits and hyphens.", code="bad_channel"
        )
    name = slug.replace("-", " ").capitalize()
    channel: Channel = Channel.objects.get_or_create(slug=slug, defaults={"name": name})[0]
    return channel


# -- the file --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def received(blocks: Iterable[bytes], *, name: str) -> Iterator[Upload]:
    """The bytes as a file in ROOT/incoming, with their checksum; gone afterwards unless it was moved away."""
    upload_id = new_ulid()
    name = plain_name(name)
    folder = storage.incoming(upload_id)
    limit = conf.current().upload_max_bytes
    digest, size = hashlib.sha256(), 0
    try:
        folder.mkdir(parents=True)
        with (folder / storage.safe_name(name)).open("wb") as file:
            for block in blocks:
                size += len(block)
                if size > limit:
                    raise _too_large(limit)
                digest.update(block)
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        yield Upload(upload_id, name, size, digest.hexdigest())
    except OSError as error:
        if is_disk_full(error):
            raise NotNow(NO_ROOM, code="no_room") from error
        raise
    finally:
        storage.remove(folder)


def arrived(upload_id: str, name: str) -> Upload:
    """A file that is in ROOT/incoming already, with its checksum. It stays there unless it is admitted."""
    path = storage.incoming(upload_id) / storage.safe_name(name)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return Upload(upload_id, name, os.fstat(file.fileno()).st_size, digest.hexdigest())


def plain_name(name: str) -> str:
    """The name of an uploaded file as it is stored: no folders, and not too long."""
    return storable(Path(name).name)[-LONGEST_NAME:]


def is_disk_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _too_large(limit: int) -> UploadRefused:
    return UploadRefused(
        f"The file is larger than {limit:,} bytes, which is the limit here.", code="too_large"
    )


def _blocks(path: Path) -> Iterator[bytes]:
    """The file as long as it is now: one that grows while it is read has no end."""
    limit = conf.current().upload_max_bytes
    with open_file(path) as file:
        left = os.fstat(file.fileno()).st_size
        if left > limit:
            raise _too_large(limit)
        while left and (block := file.read(min(BLOCK, left))):
            left -= len(block)
            yield block


# -- the records -----------------------------------------------------------------------------------------------------


def what_is_wanted(
    name: str,
    channel: Channel,
    *,
    title: str = "",
    slug: str | None = None,
    owner: str = "",
    visibility: str = Visibility.PUBLIC,
    same_content_once: bool = False,
    qualities: Sequence[str] = (),
    captions: Sequence[Captions] = (),
) -> Wanted:
    """Raises UploadRefused for what makes no sense, whatever the file is."""
    if visibility not in Visibility.values:
        raise UploadRefused(
            f"visibility is one of {', '.join(Visibility.values)}, not {visibility!r}.", code="bad_visibility"
        )
    title = " ".join(storable(title or Path(name).stem.replace("_", " ")).split())[:300] or "Untitled"
    if slug is not None and (not slug or slug != slugify(slug) or len(slug) > 150):
        raise UploadRefused(
            f"{slug!r} cannot be part of an address; use letters, digits and hyphens.", code="bad_slug"
        )
    handle = slug or slugify(title)[:150] or "video"
    return Wanted(
        channel,
        title,
        handle,
        slug is not None,
        owner,
        visibility,
        same_content_once,
        check_qualities(qualities),
        one_per_language(captions),
    )


def check_qualities(qualities: Sequence[str]) -> tuple[str, ...]:
    """Names from the ladder, or UploadRefused."""
    known = [rung.name for rung in LADDER]
    for name in qualities:
        if name not in known:
            raise UploadRefused(
                f"There is no quality {name!r}; choose from {', '.join(known)}.", code="unknown_quality"
            )
    return tuple(qualities)


def admit(upload: Upload, wanted: Wanted, *, note: Callable[[Video], None] = lambda video: None) -> Video:
    """Look at the file; then the video, its generation and its first job, together or not at all.

    `note` writes down which video it has become, in the same transaction.
    """
    try:
        info = examine(upload.path, limits=conf.current().limits)
    except NotPlayable as refusal:
        raise UploadRefused(refusal.reason, code=refusal.code) from refusal
    if depot.current() is None:
        return database.when_unlocked(lambda: _store(new_ulid(), upload, wanted, info, note))
    with sent_source(upload.path) as video_id:
        video = database.when_unlocked(lambda: _store(video_id, upload, wanted, info, note))
        if video.pk != video_id:
            withdraw(video_id)
    return video


def _store(
    video_id: str, upload: Upload, wanted: Wanted, info: SourceInfo, note: Callable[[Video], None]
) -> Video:
    folder = storage.video_folder(video_id)
    try:
        with database.atomic():
            # One upload into a channel at a time, for these few statements: the second sees what the first has made.
            Channel.objects.select_for_update(no_key=True).get(pk=wanted.channel.pk)
            existing = _existing(upload, wanted)
            if existing:
                note(existing)
                return existing
            video = _create(video_id, upload, wanted, info)
            if depot.current() is None:
                (folder / "source").mkdir(parents=True)
                _move(upload.path, storage.source(video))
            transcode = Transcode.objects.create(
                video=video, number=1, requested_qualities=list(wanted.qualities)
            )
            store_captions(video, wanted.captions)
            pipeline.start(transcode)
            note(video)
    except BaseException:
        _take_back(folder, upload)
        raise
    return video


def _move(path: Path, target: Path) -> None:
    """As a second name, where the disk has such: should we die before the commit, the upload is still there."""
    try:
        target.hardlink_to(path)
    except OSError:
        path.rename(target)


def _take_back(folder: Path, upload: Upload) -> None:
    """The transaction failed: the file is an upload again, which another attempt (or nobody) makes a video of."""
    moved = folder / "source" / upload.path.name
    if moved.exists() and upload.path.parent.exists():
        moved.rename(upload.path)
    storage.remove(folder)


def _existing(upload: Upload, wanted: Wanted) -> Video | None:
    if wanted.chosen and (found := _same_handle(wanted)):
        return found
    if wanted.same_content_once or not wanted.chosen:
        same = Video.objects.kept().filter(channel=wanted.channel, source_sha256=upload.sha256)
        if not wanted.same_content_once:
            same = same.filter(title=wanted.title)
        if video := same.first():
            return _found(video)
    return None


def _same_handle(wanted: Wanted) -> Video | None:
    video = Video.objects.filter(channel=wanted.channel, handle=wanted.handle).first()
    if video is None:
        return None
    if video.deleted_at is not None:
        raise UploadRefused(
            f"The channel had a video {wanted.handle!r}, which was deleted; restore or purge that one first.",
            code="video_deleted",
        )
    return _found(video)


def _found(video: Video) -> Video:
    video.created = False
    return video


def _create(video_id: str, upload: Upload, wanted: Wanted, info: SourceInfo) -> Video:
    """The row, under the first free address: another channel may have the same one."""
    in_channel = Video.objects.filter(channel=wanted.channel)
    handle = next(name for name in _variants(wanted.handle) if not in_channel.filter(handle=name).exists())
    for slug in _variants(handle):
        if Video.objects.filter(slug=slug).exists():
            continue
        # Another channel may be taking the same address at this moment.
        with contextlib.suppress(IntegrityError), database.atomic():
            return Video.objects.create(
                id=video_id,
                channel=wanted.channel,
                title=wanted.title,
                handle=handle,
                slug=slug,
                owner=wanted.owner,
                visibility=wanted.visibility,
                warning=" ".join(info.warnings),
                source_name=upload.name,
                source_bytes=upload.size,
                source_sha256=upload.sha256,
                duration=float(info.video.duration),
                width=info.video.width,
                height=info.video.height,
                fps=float(info.video.frame_rate),
                video_codec=info.video.codec,
                audio_codec=info.audio[0].codec if info.audio else "",
            )
    raise UploadRefused(
        f"Too many videos are named {wanted.handle!r}; choose another slug.", code="too_many_names"
    )


def _variants(name: str) -> Iterator[str]:
    return (name if number == 1 else f"{name}-{number}" for number in range(1, ADDRESSES_TRIED))
