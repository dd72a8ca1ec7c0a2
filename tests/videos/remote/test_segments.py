"""Segments and manifests that are not what they say: each is refused, and the generation stays as it was."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Status
from tests.support.queue.actors import status_of
from tests.support.remote.remote_client import RemoteClient, good, refused
from tests.support.remote.remote_films import CHUNK, SOUND, changed, claim, listed, make, send_all
from tests.support.remote.remote_films import encoder as encoder  # fixtures
from tests.support.remote.remote_films import transcode as transcode
from tests.support.videos.video_site import files_in
from videos import storage
from videos.media import boxes
from videos.models import Transcode

pytestmark = pytest.mark.django_db(transaction=True)

MANIFEST = "manifests/chunk_00001.json"
INIT, FIRST, SECOND = "360p/init.mp4", "360p/seg_00001.m4s", "360p/seg_00002.m4s"


class Made:
    """A chunk that was encoded elsewhere and not sent yet."""

    def __init__(self, far: RemoteClient, transcode: Transcode, into: Path, kind: str = CHUNK) -> None:
        self.far, self.job = far, claim(far, kind)
        order = good(far.get(self.job, "order"))["order"]
        self.files = make(order, self.job, storage.source(transcode.video), into)
        self.generation = storage.generation(transcode)

    def send(self, name: str, content: bytes) -> Any:
        return self.far.put(self.job, name, content)


@pytest.fixture
def made(encoder: RemoteClient, transcode: Transcode, tmp_path: Path) -> Made:
    return Made(encoder, transcode, tmp_path / "made")


def patched(content: bytes, path: str, offset: int, code: str, value: int) -> bytes:
    """With another number in the body of a box."""
    data = bytearray(content)
    struct.pack_into(code, data, boxes.need(content, path).body + offset, value)
    return bytes(data)


Damage = Callable[[dict[str, bytes]], bytes]
SEGMENTS: dict[str, tuple[str, Damage]] = {
    "empty": (FIRST, lambda files: b" "),
    "text": (FIRST, lambda files: b"#EXTM3U\nhttp://elsewhere/evil.m4s\n"),
    "an init segment": (FIRST, lambda files: files[INIT]),
    "another segment": (FIRST, lambda files: files[SECOND]),
    "two segments": (FIRST, lambda files: files[FIRST] + files[SECOND]),
    "cut off": (FIRST, lambda files: files[FIRST][:-100]),
    "a box too large": (FIRST, lambda files: patched(files[FIRST], "moof", -8, ">I", 2**31)),
    "a wrong number": (FIRST, lambda files: patched(files[FIRST], "moof/mfhd", 4, ">I", 7)),
    "a wrong time": (FIRST, lambda files: patched(files[FIRST], "moof/traf/tfdt", 4, ">Q", 2**40)),
    "too many samples": (FIRST, lambda files: patched(files[FIRST], "moof/traf/trun", 4, ">I", 2**32 - 1)),
    "no samples": (FIRST, lambda files: patched(files[FIRST], "moof/traf/trun", 4, ">I", 0)),
    "samples outside": (FIRST, lambda files: patched(files[FIRST], "moof/traf/trun", 8, ">i", 2**30)),
    "a segment as init": (INIT, lambda files: files[FIRST]),
    "text as init": (INIT, lambda files: b"<html>" * 50),
    "an init with samples": (INIT, lambda files: files[INIT] + files[FIRST]),
    "an init that is cut off": (INIT, lambda files: files[INIT][:-20]),
    "an init without tracks": (INIT, lambda files: files[INIT].replace(b"trak", b"kart")),
    "an init without samples' description": (INIT, lambda files: files[INIT].replace(b"stsd", b"dsts")),
    "an init that points elsewhere": (
        INIT,
        lambda files: patched(files[INIT], "moov/trak/mdia/minf/dinf/dref", 16, ">I", 0),
    ),
}


@pytest.mark.parametrize("name", SEGMENTS)
def test_what_is_not_a_segment_is_refused(made: Made, videos_root: Path, name: str) -> None:
    before = files_in(videos_root)
    address, damage = SEGMENTS[name]
    detail = refused(made.send(address, damage(made.files)), 422, "refused")
    assert address in detail
    assert files_in(videos_root) == before
    good(made.send(address, made.files[address]))


@pytest.mark.parametrize(
    "name",
    [
        *("360p/index.m3u8", "master.m3u8", "360p/playlist.m3u8", "poster.jpg", "360p/evil.mp4"),
        *(
            "360p/seg_00003.m4s",
            "480p/seg_00000.m4s",
            "360p/seg_1.m4s",
            "720p/init.mp4",
            "audio_1_128k/init.mp4",
        ),
        *("manifests/chunk_00002.json", "manifests/audio_1.json", "manifests/thumbnail.json", "init.mp4"),
        *("360p/../480p/init.mp4", "../g2/360p/init.mp4", "360P/init.mp4", "source/film.mp4"),
    ],
)
def test_a_chunk_may_write_its_own_files_only(made: Made, videos_root: Path, name: str) -> None:
    before = files_in(videos_root)
    refused(made.send(name, made.files[FIRST]), 422, "refused")
    assert files_in(videos_root) == before


def test_a_sound_track_may_write_its_own_files_only(
    encoder: RemoteClient, transcode: Transcode, videos_root: Path, tmp_path: Path
) -> None:
    sound = Made(encoder, transcode, tmp_path / "sound", SOUND)
    first = next(name for name in sound.files if name.endswith("seg_00001.m4s"))
    for name in (INIT, FIRST, MANIFEST, "manifests/audio_2.json", first.replace("audio_1", "audio_2")):
        refused(sound.send(name, sound.files[first]), 422, "refused")
    send_all(encoder, sound.job, sound.files)
    good(encoder.report("complete", sound.job))
    assert status_of(sound.job["job_id"]) == Status.COMPLETED


def test_a_file_that_is_too_large_is_not_even_read(made: Made) -> None:
    for name in (INIT, FIRST, MANIFEST):
        answer = made.far.put(made.job, name, b"x", CONTENT_LENGTH=str(10**10))
        assert refused(answer, 413, "too_large")


MANIFESTS: dict[str, Callable[[bytes], bytes]] = {
    "not JSON": lambda manifest: b"{",
    "a list": lambda manifest: b"[]",
    "a deep one": lambda manifest: b"[" * 100_000,
    "not text": lambda manifest: b"\xff\xfe",
    "no fields": lambda manifest: b"{}",
    "a huge number": lambda manifest: b'{"frames": ' + b"9" * 5000 + b"}",
    "another plan": lambda manifest: changed(manifest, plan="0" * 64),
    "negative frames": lambda manifest: changed(manifest, frames=-1),
    "too many frames": lambda manifest: changed(manifest, frames=10**6),
    "too many frames, no files": lambda manifest: changed(manifest, frames=10**6, files=[]),
    "fewer frames than files": lambda manifest: changed(manifest, frames=1),
    "frames as text": lambda manifest: changed(manifest, frames="50"),
    "no files": lambda manifest: changed(manifest, files=[]),
    "files without fields": lambda manifest: changed(manifest, files=[{}]),
    "files that are none": lambda manifest: changed(manifest, files=7),
    "another quality": lambda manifest: changed(manifest, parts=["720p"]),
    "a quality as a list": lambda manifest: changed(manifest, parts=[["360p"]]),
    "a quality twice": lambda manifest: changed(manifest, parts=["360p", "480p", "480p"]),
    "a file elsewhere": lambda manifest: _with(manifest, name="../../../etc/passwd"),
    "a file of another chunk": lambda manifest: _with(manifest, name="360p/seg_00009.m4s"),
    "a file that is a number": lambda manifest: _with(manifest, name=5),
    "a wrong size": lambda manifest: _with(manifest, size=5),
    "a size that is none": lambda manifest: _with(manifest, size=-5),
    "a wrong checksum": lambda manifest: _with(manifest, sha256="0" * 64),
    "a checksum that is none": lambda manifest: _with(manifest, sha256=None),
    "a file twice": lambda manifest: changed(
        manifest, files=[*json.loads(manifest)["files"], json.loads(manifest)["files"][0]]
    ),
}


def _with(manifest: bytes, **fields: Any) -> bytes:
    """The first file that it lists has other fields."""
    first, *rest = json.loads(manifest)["files"]
    return changed(manifest, files=[{**first, **fields}, *rest])


def test_a_manifest_that_lies_commits_nothing(made: Made, videos_root: Path) -> None:
    manifest = made.files.pop(MANIFEST)
    send_all(made.far, made.job, made.files)
    before = files_in(videos_root)
    for name, damage in MANIFESTS.items():
        answer = made.send(MANIFEST, damage(manifest))
        assert answer.status_code == 422, (name, answer.content)
        assert MANIFEST in refused(answer, 422, "refused")
    assert files_in(videos_root) == before
    assert not made.generation.exists() or files_in(made.generation) == {}
    refused(made.far.report("complete", made.job), 409, "unfinished")
    good(made.send(MANIFEST, manifest))
    good(made.far.report("complete", made.job))


def test_a_manifest_before_its_files_is_refused(made: Made) -> None:
    manifest = made.files.pop(MANIFEST)
    missing = made.files.popitem()
    send_all(made.far, made.job, made.files)
    assert missing[0] in refused(made.send(MANIFEST, manifest), 422, "refused")
    good(made.send(*missing))
    good(made.send(MANIFEST, manifest))


def test_the_second_chunk_must_have_the_init_segment_of_the_first(
    made: Made, encoder: RemoteClient, transcode: Transcode, tmp_path: Path
) -> None:
    send_all(encoder, made.job, made.files)
    good(encoder.report("complete", made.job))
    second = Made(encoder, transcode, tmp_path / "second")
    other = patched(second.files[INIT], "moov/mvhd", 12, ">I", 77)
    detail = refused(second.send(INIT, other), 422, "refused")
    assert INIT in detail
    send_all(encoder, second.job, second.files)
    good(encoder.report("complete", second.job))


def test_of_two_chunks_with_different_init_segments_the_first_to_commit_wins(
    made: Made, encoder: RemoteClient, transcode: Transcode, tmp_path: Path
) -> None:
    second = Made(encoder, transcode, tmp_path / "second")
    name, manifest = second.files.popitem()
    second.files[INIT] = patched(second.files[INIT], "moov/mvhd", 12, ">I", 77)
    send_all(encoder, second.job, second.files)
    send_all(encoder, made.job, made.files)
    before = files_in(made.generation)
    lying = changed(manifest, files=listed(second.files))
    assert INIT in refused(second.send(name, lying), 422, "refused")
    assert files_in(made.generation) == before
