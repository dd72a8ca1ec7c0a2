"""Uploads: what becomes a video, what is refused, and what is there already."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pytest_django import Settings

from jobs.models import Job, Workflow
from tests.support.queue.actors import race
from tests.support.videos.codes import coded
from tests.support.videos.hostile_files import (
    CONCAT,
    DASH,
    HLS,
    SDP,
    encrypted,
    endless,
    giant,
    magicyuv,
    nobody_opens,
)
from tests.support.videos.media_clips import make_clip
from tests.support.videos.video_site import accept, channel, clip, files_in
from videos import intake, storage
from videos.exceptions import UploadRefused
from videos.models import Transcode, Video, VideoStatus

pytestmark = pytest.mark.django_db


def nothing_is_left(root: Path) -> bool:
    rows = Video.objects.count() + Transcode.objects.count() + Job.objects.count() + Workflow.objects.count()
    return rows == 0 and files_in(root) == {}


def test_an_upload_is_a_video_with_a_generation_and_its_first_job(videos_root: Path) -> None:
    source = clip()
    video = accept(source, title="  The   film ")
    assert video.created
    assert (video.title, video.slug, video.status) == ("The film", "the-film", VideoStatus.PENDING)
    assert (video.width, video.height, video.source_bytes) == (640, 360, source.stat().st_size)
    assert storage.source(video).read_bytes() == source.read_bytes()
    transcode = video.transcodes.get()
    job = Job.objects.get()
    assert (job.type, job.workflow_id, transcode.number) == ("videos.probe", transcode.workflow_id, 1)
    assert {path.name for path in videos_root.iterdir()} == {"incoming", video.pk}
    assert files_in(videos_root / "incoming") == {}


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("empty.mp4", b"", "empty"),
        ("text.mp4", b"Hello, I am a film.", "text"),
        ("list.mp4", b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n", "playlist"),
        ("concat.mp4", b"ffconcat version 1.0\nfile /etc/passwd\n", "playlist"),
        ("picture.mp4", b"\x89PNG\r\n\x1a\n" + bytes(100), "image"),
        ("broken.mp4", b"\x00\x00\x00\x18ftypmp42" + bytes(200), "damaged"),
    ],
)
def test_what_is_no_video_is_refused_and_leaves_nothing(
    videos_root: Path, tmp_path: Path, name: str, content: bytes, code: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UploadRefused, check=coded(code)):
        accept(path)
    assert nothing_is_left(videos_root)


@pytest.mark.parametrize("text", [HLS, CONCAT, DASH, SDP])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_list_of_other_files_is_refused_and_none_of_them_is_opened(
    videos_root: Path, tmp_path: Path, text: str, streamed: bool
) -> None:
    canary = make_clip(tmp_path / "canary.mp4", frames=5, sounds=())
    path = tmp_path / "film.mp4"
    path.write_text(text.format(canary=canary))
    blocks = [path.read_bytes()]
    stream = partial(intake.accept_stream, blocks, name="film.mp4", channel=channel())
    with nobody_opens(canary), pytest.raises(UploadRefused, check=coded("playlist", "text")):
        stream() if streamed else accept(path)
    assert nothing_is_left(videos_root)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (giant, "absurd_size"),
        (partial(giant, side=16_000), "picture_too_large"),
        (magicyuv, "unknown_codec"),
        (encrypted, "encrypted"),
        (partial(endless, seconds_each=3600), "too_long"),
        (partial(endless, pictures=150_000_000), "absurd_size"),
    ],
)
def test_a_file_made_to_do_harm_is_refused_and_leaves_nothing(
    videos_root: Path, tmp_path: Path, make: Callable[[Path], Path], code: str
) -> None:
    with pytest.raises(UploadRefused, check=coded(code)):
        accept(make(tmp_path / "film.mp4"))
    assert nothing_is_left(videos_root)


def test_a_pipe_and_a_device_are_refused_at_once(videos_root: Path, tmp_path: Path) -> None:
    """Nobody ever writes to the pipe, and the device never ends."""
    pipe = tmp_path / "film.mp4"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(UploadRefused, check=coded("not_a_file")):
            accept(path)
    assert nothing_is_left(videos_root)


def test_a_file_that_is_still_being_written_is_refused(
    videos_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "BLOCK", 1000)
    path = tmp_path / "film.mp4"
    path.write_bytes(clip().read_bytes())
    for block in (blocks := intake._blocks(path)):
        with path.open("ab") as file:
            file.write(block)  # for each that is read another one comes: there is no end
        break
    with pytest.raises(UploadRefused, check=coded("still_written")):
        list(blocks)


def test_a_file_above_the_limit_is_refused_and_leaves_nothing(videos_root: Path, settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "UPLOAD_MAX_BYTES": 1000}
    with pytest.raises(UploadRefused, match="1,000", check=coded("too_large")):
        accept(clip())
    with pytest.raises(UploadRefused, match="1,000", check=coded("too_large")):
        intake.accept_stream(iter([bytes(600)] * 2), name="stream.mp4", channel=channel())
    assert nothing_is_left(videos_root)


def test_a_video_above_the_limits_is_refused(videos_root: Path, settings: Settings) -> None:
    settings.VIDEOS = {**settings.VIDEOS, "MAX_DURATION": "1s"}
    with pytest.raises(UploadRefused, check=coded("too_long")):
        accept(clip())
    settings.VIDEOS = {**settings.VIDEOS, "MAX_DURATION": "1h", "MAX_PIXELS": 1000}
    with pytest.raises(UploadRefused, check=coded("picture_too_large")):
        accept(clip())
    assert nothing_is_left(videos_root)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"slug": "no spaces"}, "bad_slug"),
        ({"visibility": "secret"}, "bad_visibility"),
        ({"qualities": ["8000p"]}, "unknown_quality"),
    ],
)
def test_what_makes_no_sense_is_refused(videos_root: Path, wanted: dict[str, object], code: str) -> None:
    with pytest.raises(UploadRefused, check=coded(code)):
        accept(clip(), **wanted)
    assert nothing_is_left(videos_root)


def test_a_missing_file_and_a_folder_are_refused(videos_root: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.mp4", tmp_path):
        with pytest.raises(UploadRefused, check=coded("unreadable", "not_a_file")):
            accept(path)
    assert nothing_is_left(videos_root)


def test_a_failing_transaction_leaves_no_row_and_no_file(
    videos_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(transcode: Transcode) -> None:
        assert storage.source(transcode.video).is_file(), "the file is in its place before the commit"
        raise RuntimeError("the database went away")

    monkeypatch.setattr("videos.pipeline.start", fail)
    with pytest.raises(RuntimeError):
        accept(clip())
    assert nothing_is_left(videos_root)


def test_the_same_slug_in_the_same_channel_is_the_same_video(videos_root: Path) -> None:
    first = accept(clip(), slug="film")
    second = accept(clip(50), slug="film", title="Another")
    assert (second.pk, second.created) == (first.pk, False)
    assert Job.objects.count() == 1
    assert len(files_in(videos_root)) == 1


def test_the_same_file_twice_is_the_same_video_and_another_one_of_that_name_is_not(
    videos_root: Path, tmp_path: Path
) -> None:
    first = accept(clip(), title="Film")
    again = accept(clip(), title="Film")
    other = accept(clip(50), title="Film")
    assert (again.pk, again.created) == (first.pk, False)
    assert (other.created, other.slug) == (True, "film-2")


def test_another_channel_has_its_own_video_under_another_address(videos_root: Path) -> None:
    here = accept(clip(), slug="film")
    there = accept(clip(), slug="film", channel=channel("series"))
    assert (here.slug, there.slug) == ("film", "film-2")
    assert accept(clip(), slug="film", channel=channel("series")).pk == there.pk


def test_the_same_content_is_the_same_video_when_asked(videos_root: Path) -> None:
    first = accept(clip(), slug="one")
    assert accept(clip(), slug="two", same_content_once=True).pk == first.pk
    assert accept(clip(), slug="three").pk != first.pk


def test_a_deleted_video_keeps_its_address(videos_root: Path) -> None:
    from videos import intervening

    intervening.delete(accept(clip(), slug="film"))
    with pytest.raises(UploadRefused, check=coded("video_deleted")):
        accept(clip(), slug="film")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("wanted", [{"slug": "film"}, {"title": "Film"}, {"same_content_once": True}])
def test_uploads_at_the_same_moment_make_one_video(videos_root: Path, wanted: dict[str, object]) -> None:
    source, shelf = clip(), channel()
    videos = race([partial(accept, source, channel=shelf, **wanted) for _ in range(4)])
    assert len({video.pk for video in videos}) == 1
    assert sorted(video.created for video in videos) == [False, False, False, True]
    assert (Video.objects.count(), Job.objects.count()) == (1, 1)
    assert len(files_in(videos_root)) == 1


@pytest.mark.django_db(transaction=True)
def test_uploads_into_several_channels_at_the_same_moment_get_addresses_of_their_own(
    videos_root: Path,
) -> None:
    source, shelves = clip(), [channel(f"shelf-{n}") for n in range(4)]
    videos = race([partial(accept, source, channel=shelf, slug="film") for shelf in shelves])
    assert sorted(video.slug for video in videos) == ["film", "film-2", "film-3", "film-4"]


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("Café (1).MP4", "caf-1.mp4"),
        ("../../etc/passwd", "passwd"),
        ("..", "video"),
        ("a\\b\\c.mov", "c.mov"),
        ("x" * 300 + ".webm", "x" * 80 + ".webm"),
        (".hidden", "video.hidden"),
        ("nul\x00name.mp4", "nul-name.mp4"),
    ],
)
def test_names_of_files_are_harmless(name: str, safe: str) -> None:
    assert storage.safe_name(name) == safe
