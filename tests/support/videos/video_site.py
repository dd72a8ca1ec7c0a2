"""What the tests of the pipeline share: a folder for the videos, clips made once, and questions about the outcome."""

import functools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client

from tests.support.videos import conformance
from tests.support.videos.media_clips import make_clip
from videos import assembling, intake, storage
from videos.models import Channel, Transcode, Video

_clips = tempfile.TemporaryDirectory(prefix="sprocket-clips-")


@functools.cache
def clip(
    frames: int = 100,
    size: tuple[int, int] = (640, 360),
    sounds: tuple[int, ...] = (1000,),
    suffix: str = "mp4",
) -> Path:
    """A clip of numbered pictures at 25 a second, made once per run of the suite."""
    name = f"clip-{frames}-{size[0]}x{size[1]}-{len(sounds)}.{suffix}"
    return make_clip(Path(_clips.name) / name, frames=frames, size=size, sounds=sounds)


def two_qualities(frames: int = 100) -> Path:
    """A clip that has 480p and 360p."""
    return clip(frames, (640, 480))


def channel(slug: str = "films") -> Channel:
    found: Channel = Channel.objects.get_or_create(slug=slug, defaults={"name": slug.title()})[0]
    return found


def client_of(*permissions: str, staff: bool = True, csrf: bool = False) -> Client:
    """Somebody new, signed in, with these permissions of the app."""
    user = User.objects.create_user(f"clerk{User.objects.count()}", is_staff=staff)
    user.user_permissions.set(
        Permission.objects.filter(codename__in=permissions, content_type__app_label="videos")
    )
    client = Client(enforce_csrf_checks=csrf)
    client.force_login(user)
    return client


def accept(path: Path, **wanted: Any) -> Video:
    return intake.accept(path, channel=wanted.pop("channel", None) or channel(), **wanted)


def only_transcode(video: Video) -> Transcode:
    found: Transcode = video.transcodes.get()
    return found


def current(video: Video) -> Transcode:
    video.refresh_from_db()
    assert video.current is not None, f"nothing is published: {video.status}, {video.error_message}"
    found: Transcode = video.current
    return found


def check_published(video: Video, *, sync: bool = True, without: tuple[str, ...] = ()) -> None:
    """What viewers get is conformant, decoded frame by frame; `without` names qualities that were given up."""
    transcode = current(video)
    plan = assembling.published_plan(transcode)
    plan = replace(plan, renditions=tuple(r for r in plan.renditions if r.name not in without))
    conformance.check(storage.generation(transcode), plan, sync=sync)


def files_in(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
