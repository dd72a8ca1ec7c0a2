"""The stages besides encoding, by a worker elsewhere: what it gets, what it may send, and what the site makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs import type_control
from jobs.models import Job, Status
from jobs.testing import run_due_jobs
from tests.support.queue.actors import status_of, stored
from tests.support.remote.remote_client import REMOTE, RemoteClient, good, new_remote, refused
from tests.support.remote.remote_films import claim, listed, make, send_all
from tests.support.videos.codes import error_types
from tests.support.videos.media_clips import run_ffmpeg
from tests.support.videos.video_site import (
    accept,
    check_published,
    clip,
    current,
    files_in,
    only_transcode,
    two_qualities,
)
from videos import manifests, storage, toolchains
from videos.media import encode, examine, serial, thumbnails
from videos.media.plan import EncodePlan
from videos.models import Subtitle, SubtitleSource, Transcode, Video
from videos.publishing import BREAKS_OFF

pytestmark = pytest.mark.django_db(transaction=True)

PROBE, PICTURES, TEXT, SPEECH = "videos.probe", "videos.thumbnail", "videos.subtitles", "videos.transcribe"
PLAYLISTS = "videos.master_playlist"
SRT = "1\n00:00:00,500 --> 00:00:01,500\nHello\n"


@pytest.fixture
def far(declare: Any, videos_root: Path) -> RemoteClient:
    declare(REMOTE, remote=True)
    return new_remote("far", capabilities=sorted({*toolchains.here().capabilities, "speech"}))


def just_before(kind: str) -> None:
    """Local workers do everything until such a job is due."""
    type_control.pause([kind])
    run_due_jobs()
    type_control.resume([kind])


def records() -> list[Any]:
    return [
        list(Job.objects.order_by("pk").values()),
        list(Transcode.objects.values()),
        list(Video.objects.values()),
    ]


# -- the look at the source --------------------------------------------------------------------------------------------


@pytest.fixture
def video(videos_root: Path) -> Video:
    return accept(two_qualities(), slug="film")


def found(video: Video) -> Any:
    return json.loads(json.dumps(serial.to_json(examine.examine(storage.source(video)))))


def test_the_plan_is_made_of_what_a_far_worker_has_found_as_if_the_site_had_looked(
    far: RemoteClient, video: Video
) -> None:
    other = accept(two_qualities(), slug="same")
    run_due_jobs(limit=1)
    job = claim(far, PROBE)
    planned = only_transcode(video if job["payload"]["transcode_id"] != only_transcode(video).pk else other)
    mine = only_transcode(video if planned.video_id != video.pk else other)
    order = good(far.get(job, "order"))
    assert order["order"]["limits"]["streams"] == 64
    assert order["source"]["sha256"] == mine.video.source_sha256
    refused(far.report("complete", job), 409, "unfinished")
    good(far.put(job, "source.json", json.dumps(found(mine.video)).encode()))
    assert only_transcode(mine.video).plan is None, "nothing has happened yet"
    good(far.report("complete", job))
    mine.refresh_from_db()
    assert mine.plan == planned.plan
    types = [
        sorted(Job.objects.filter(workflow_id=one.workflow_id).values_list("type", flat=True))
        for one in (mine, planned)
    ]
    assert types[0] == types[1]
    good(far.report("complete", job))  # whose answer got lost
    run_due_jobs()
    check_published(mine.video)


@pytest.mark.parametrize(
    "lie",
    [
        {"width": 1280, "height": 720},
        {"codec": "hevc"},
        {"frame_rate": "50/1"},
        {"end": "40000/1", "frames": 1_000_000},
        {"width": -1},
        {"pix_fmt": "yuv420p;movie=/etc/passwd"},
    ],
)
def test_a_look_that_contradicts_the_upload_or_its_bounds_is_refused(
    far: RemoteClient, video: Video, lie: dict[str, Any]
) -> None:
    job, told = claim(far, PROBE), found(video)
    before = records()
    told["video"].update(lie)
    assert refused(far.put(job, "source.json", json.dumps(told).encode()), 422, "refused").startswith(
        "source.json: "
    )
    refused(far.report("complete", job), 409, "unfinished")
    assert records() == before
    assert [path for path in storage.workplace().rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("name", ["plan.json", "source.mp4", "../source.json", "poster.jpg", "a/source.json"])
def test_a_look_is_one_file(far: RemoteClient, video: Video, name: str) -> None:
    assert far.put(claim(far, PROBE), name, b"{}").status_code in (404, 422)


def test_a_worker_that_does_not_encode_binds_the_plan_to_one_that_does(
    far: RemoteClient, video: Video
) -> None:
    looker = new_remote("looker", types=[PROBE])
    job = claim(looker, PROBE)
    good(looker.put(job, "source.json", json.dumps(found(video)).encode()))
    good(looker.report("complete", job))
    assert EncodePlan.from_json(only_transcode(video).plan or {}).ffmpeg == toolchains.here().build


def test_without_anybody_who_encodes_the_look_is_put_off(declare: Any, video: Video) -> None:
    declare(REMOTE, remote=True)
    looker = new_remote("looker", types=[PROBE])
    job = claim(looker, PROBE)
    good(looker.put(job, "source.json", json.dumps(found(video)).encode()))
    refused(looker.report("complete", job), 409, "lease_lost")
    row = stored(job["job_id"])
    assert (row.status, row.attempt_number) == (Status.WAITING, 0)
    assert error_types(job=row.pk) == {"NobodyEncodes"}


# -- pictures ----------------------------------------------------------------------------------------------------------


def pictures(far: RemoteClient, job: dict[str, Any], into: Path) -> dict[str, bytes]:
    """What the worker would send, from what it is given."""
    plan = EncodePlan.from_json(good(far.get(job, "order"))["order"]["plan"])
    for name in thumbnails.needed(plan):
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(far.get(job, f"files/{name}").streaming_content))
    made = thumbnails.make(plan, into)
    return {file.name: (into / file.name).read_bytes() for file in (made.poster, *made.sheets)}


def test_pictures_are_made_of_segments_that_are_there(
    far: RemoteClient, video: Video, tmp_path: Path
) -> None:
    just_before(PICTURES)
    job = claim(far, PICTURES)
    generation = storage.generation(only_transcode(video))
    given = far.get(job, "files/360p/seg_00001.m4s", Range="bytes=0-9")
    content = (generation / "360p/seg_00001.m4s").read_bytes()
    assert (given.status_code, b"".join(given.streaming_content)) == (206, content[:10])
    for name in ("480p/seg_00009.m4s", "manifests/chunk_00001.json", "audio_1_96k/init.mp4", "poster.jpg"):
        refused(far.get(job, f"files/{name}"), 404)
    for name in ("../source", "%2e%2e/source", "360p//init.mp4", "360p\\init.mp4", "."):
        assert far.get(job, f"files/{name}").status_code in (404, 422)
    files = pictures(far, job, tmp_path)
    refused(far.report("complete", job), 409, "unfinished")
    send_all(far, job, files)
    assert not (generation / "poster.jpg").exists(), "nothing has happened yet"
    good(far.report("complete", job))
    assert {name: (generation / name).read_bytes() for name in files} == files
    assert (generation / "storyboard.vtt").read_bytes() == (tmp_path / "storyboard.vtt").read_bytes()
    assert manifests.read(generation, manifests.THUMBNAIL) is not None
    run_due_jobs()
    check_published(video)


def test_what_is_no_such_picture_is_refused(far: RemoteClient, video: Video, tmp_path: Path) -> None:
    just_before(PICTURES)
    job = claim(far, PICTURES)
    before = files_in(storage.generation(only_transcode(video)))
    files = pictures(far, job, tmp_path)
    poster, sheet = files["poster.jpg"], files["storyboard_001.jpg"]
    for name, content in (
        ("poster.jpg", b"<script>alert(1)</script>"),
        ("poster.jpg", sheet),
        ("poster.jpg", poster + b"<?php ?>"),
        ("poster.jpg", poster[:-10]),
        ("poster.jpg", b""),
        ("storyboard_001.jpg", poster),
        ("storyboard_002.jpg", sheet),
        ("storyboard.vtt", b"WEBVTT\n"),
        ("manifests/thumbnail.json", b"{}"),
        ("360p/init.mp4", poster),
        ("../poster.jpg", poster),
    ):
        assert far.put(job, name, content).status_code in (404, 411, 422), name
    assert far.put(job, "poster.jpg", bytes(10_000_000)).status_code == 413
    refused(far.report("complete", job), 409, "unfinished")
    assert files_in(storage.generation(only_transcode(video))) == before


# -- subtitles ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def texted(videos_root: Path, tmp_path: Path) -> Video:
    (tmp_path / "track.srt").write_text(SRT)
    path = tmp_path / "text.mkv"
    run_ffmpeg(
        *("-i", clip(50), "-i", tmp_path / "track.srt", "-map", "0", "-map", "1", "-c", "copy"),
        *("-metadata:s:s:0", "language=eng", path),
    )
    return accept(path)


def vtt(text: str, end: str = "00:00:01.500") -> bytes:
    return f"WEBVTT\n\n00:00:00.500 --> {end}\n{text}\n".encode()


def test_text_that_comes_from_elsewhere_is_written_anew(far: RemoteClient, texted: Video) -> None:
    just_before(TEXT)
    job = claim(far, TEXT)
    order = good(far.get(job, "order"))["order"]
    assert [track["language"] for track in order["tracks"]] == ["eng"]
    hostile = 'Hello <b onclick="x">world</b><script>alert(1)</script> <img src=x>'
    good(far.put(job, "captions/1.vtt", vtt(hostile, end="99:00:00.000")))
    assert not Subtitle.objects.exists(), "nothing has happened yet"
    good(far.report("complete", job, result={"languages": ["eng"]}))
    subtitle = texted.subtitles.get()
    assert (subtitle.language, subtitle.source) == ("eng", SubtitleSource.EMBEDDED)
    assert "<script" not in subtitle.webvtt
    assert "onclick" not in subtitle.webvtt
    assert "<img" not in subtitle.webvtt
    assert "--> 00:00:02.000" in subtitle.webvtt, "no longer than the programme"
    run_due_jobs()
    assert 'URI="captions/eng.m3u8"' in (storage.generation(current(texted)) / "master.m3u8").read_text()


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [
        ("captions/1.vtt", b"\n", 422),
        ("captions/1.vtt", b"nothing", 422),
        ("captions/1.vtt", b"\x00" * 1000, 422),
        ("captions/1.vtt", b"WEBVTT\n\n", 422),
        ("captions/2.vtt", vtt("Hello"), 422),
        ("captions/0.vtt", vtt("Hello"), 422),
        ("captions/eng.vtt", vtt("Hello"), 422),
        ("captions/speech.vtt", vtt("Hello"), 422),
        ("../1.vtt", vtt("Hello"), 422),
    ],
)
def test_text_that_is_none_is_refused(
    far: RemoteClient, texted: Video, name: str, content: bytes, status: int
) -> None:
    just_before(TEXT)
    job = claim(far, TEXT)
    refused(far.put(job, name, content), status)
    good(far.report("complete", job, result={"languages": []}))
    assert not Subtitle.objects.exists()


def test_more_text_than_subtitles_have_is_refused(far: RemoteClient, texted: Video) -> None:
    just_before(TEXT)
    job = claim(far, TEXT)
    refused(far.put(job, "captions/1.vtt", b"x" * ((10 << 20) + 1)), 413)
    many = b"".join(f"00:00:00.{n % 999:03} --> 00:00:01.999\nx\n\n".encode() for n in range(50_001))
    assert "50000" in refused(far.put(job, "captions/1.vtt", b"WEBVTT\n\n" + many), 422)


@pytest.fixture
def spoken(videos_root: Path, settings: Settings) -> Video:
    settings.VIDEOS = {**settings.VIDEOS, "TRANSCRIBER": "pocketsphinx"}
    return accept(clip(50))


def test_speech_that_was_recognised_elsewhere_is_stored_in_its_language(
    far: RemoteClient, spoken: Video
) -> None:
    just_before(SPEECH)
    job = claim(far, SPEECH)
    good(far.get(job, "order"))
    good(far.put(job, "captions/speech.vtt", vtt("Guten Tag")))
    for language in (None, "", "../..", "a" * 30, 5, ["de"], "de\n"):
        refused(far.report("complete", job, result={"language": language}), 409, "unfinished")
    refused(far.report("complete", job, result="de"), 409, "unfinished")
    assert not Subtitle.objects.exists()
    good(far.report("complete", job, result={"engine": "ear", "cues": 1, "language": "de"}))
    subtitle = spoken.subtitles.get()
    assert (subtitle.language, subtitle.source) == ("de", SubtitleSource.RECOGNISED)


def test_a_worker_that_cannot_listen_leaves_it_to_one_that_can(far: RemoteClient, spoken: Video) -> None:
    just_before(SPEECH)
    deaf = new_remote("deaf", types=[SPEECH])
    job = claim(deaf, SPEECH)
    refused(deaf.get(job, "order"), 409, "lease_lost")
    row = stored(job["job_id"])
    assert (row.status, row.attempt_number) == (Status.WAITING, 0)
    assert error_types(job=row.pk) == {"NotThisWorker"}


def test_where_nobody_can_listen_there_are_no_subtitles(declare: Any, spoken: Video) -> None:
    declare(REMOTE, remote=True)
    just_before(SPEECH)
    deaf = new_remote("deaf", types=[SPEECH])
    job = claim(deaf, SPEECH)
    good(deaf.get(job, "order"))
    good(deaf.report("complete", job, result={"engine": None}))
    assert status_of(job["job_id"]) == Status.COMPLETED
    assert not Subtitle.objects.exists()


# -- what does not fit together ----------------------------------------------------------------------------------------


def test_a_hole_is_filled_elsewhere(
    far: RemoteClient, video: Video, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = encode.encode_chunk

    def with_a_hole(plan: Any, number: int, **arguments: Any) -> Any:
        made = real(plan, number, **arguments)
        return encode.Encoded(frames=made.frames - 10, files=made.files) if number == 1 else made

    monkeypatch.setattr(encode, "encode_chunk", with_a_hole)
    just_before(PLAYLISTS)
    monkeypatch.undo()
    job = claim(far, PLAYLISTS)
    order = good(far.get(job, "order"))["order"]
    assert (order["holes"], order["sounds"]) == ([1], [])
    refused(far.report("complete", job), 409, "unfinished")
    refused(far.send(f"jobs/{job['job_id']}/proceed", {"token": job["token"]}), 422, "refused")
    files = make({**order, "number": 1}, {"type": "videos.encode"}, storage.source(video), tmp_path)
    refused(far.put(job, "480p/seg_00009.m4s", b"x"), 422)
    refused(far.put(job, "master.m3u8", b"#EXTM3U\n"), 422)
    refused(far.put(job, "360p/playlist.m3u8", b"#EXTM3U\n"), 422)
    send_all(far, job, files)
    good(far.report("complete", job))
    run_due_jobs()
    check_published(video)


def test_a_source_that_breaks_off_gets_sound_that_ends_with_it(
    far: RemoteClient, video: Video, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    just_before(PLAYLISTS)
    transcode = only_transcode(video)
    plan, generation = EncodePlan.from_json(transcode.plan or {}), storage.generation(transcode)
    last = manifests.chunk_name(plan.total_chunks)
    manifests.write(generation, last, manifests.Manifest(plan=plan.digest(), parts=("480p", "360p")))
    frames = plan.chunk(plan.total_chunks).first_frame
    job = claim(far, PLAYLISTS)
    order = good(far.get(job, "order"))["order"]
    assert (order["frames"], order["holes"], order["sounds"]) == (frames, [], [1])
    shorter = plan.shortened(frames)
    whole = make(
        {"plan": plan.to_json(), "number": 1}, {"type": "videos.audio"}, storage.source(video), tmp_path / "1"
    )
    refused(far.put(job, "manifests/audio_1.json", whole["manifests/audio_1.json"]), 422)
    files = make(
        {"plan": shorter.to_json(), "number": 1},
        {"type": "videos.audio"},
        storage.source(video),
        tmp_path / "2",
    )
    send_all(far, job, files)
    good(far.report("complete", job))
    transcode.refresh_from_db()
    assert transcode.frames_found == frames
    run_due_jobs()
    check_published(video)
    video.refresh_from_db()
    assert video.warning == BREAKS_OFF
    assert listed(files)
