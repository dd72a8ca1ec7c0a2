"""A video whose chunks and sound are encoded by a remote worker, as the server meets it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Job
from jobs.testing import run_due_jobs
from tests.support.queue.actors import age
from tests.support.remote.remote_client import REMOTE, RemoteClient, good, new_remote
from tests.support.videos.media_clips import LIMITS, binary
from tests.support.videos.video_site import accept, only_transcode, two_qualities
from videos import manifests, toolchains
from videos.manifests import Manifest
from videos.media import encode, serial
from videos.media.plan import EncodePlan
from videos.models import Transcode

CHUNK, SOUND = "videos.encode", "videos.audio"


@pytest.fixture
def transcode(videos_root: Path) -> Transcode:
    """After its probe: two chunks in two qualities, and a sound track. The first chunk is the first to be claimed."""
    video = accept(two_qualities(), slug="film")
    run_due_jobs(limit=1)
    age(Job.objects.filter(type=CHUNK, payload__chunk=1).values_list("pk", flat=True), 1)
    return only_transcode(video)


@pytest.fixture
def encoder(declare: Any, transcode: Transcode) -> RemoteClient:
    declare(REMOTE, remote=True)
    return new_remote("encoder", types=[CHUNK, SOUND], capabilities=sorted(toolchains.here().capabilities))


def claim(far: RemoteClient, kind: str = CHUNK) -> dict[str, Any]:
    (job,) = far.claim(types=[kind])
    return job


def make(order: dict[str, Any], job: dict[str, Any], source: Path, into: Path) -> dict[str, bytes]:
    """What the worker would send, in this order: the manifest comes last."""
    plan = EncodePlan.from_json(order["plan"])
    number = order["number"]
    arguments: dict[str, Any] = {"source": source, "into": into, "ffmpeg_binary": binary()}
    if job["type"] == SOUND:
        made = encode.encode_audio(plan, number, limits=LIMITS, **arguments)
        name = manifests.audio_name(number)
        track = plan.audio[number - 1]
        parts = tuple(track.folder(bitrate) for bitrate in track.bitrates)
    else:
        made = encode.encode_chunk(plan, number, limits=LIMITS, **arguments)
        name, parts = manifests.chunk_name(number), tuple(order["qualities"])
    files = {file.name: (into / file.name).read_bytes() for file in made.files}
    manifest = Manifest(plan=plan.digest(), frames=made.frames, parts=parts, files=made.files)
    return {**files, manifests.address(name): as_json(manifest)}


def as_json(manifest: Manifest) -> bytes:
    return json.dumps(serial.to_json(manifest)).encode()


def changed(content: bytes, **fields: Any) -> bytes:
    """A manifest with other fields."""
    return json.dumps({**json.loads(content), **fields}).encode()


def listed(files: dict[str, bytes]) -> list[dict[str, Any]]:
    return [
        {"name": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in files.items()
    ]


def send_all(far: RemoteClient, job: dict[str, Any], files: dict[str, bytes]) -> None:
    for name, content in files.items():
        good(far.put(job, name, content))


def run_remotely(far: RemoteClient, job: dict[str, Any], source: Path, into: Path) -> dict[str, bytes]:
    order = good(far.get(job, "order"))["order"]
    files = make(order, job, source, into)
    send_all(far, job, files)
    good(far.report("complete", job))
    return files
