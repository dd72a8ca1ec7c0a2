"""A watched folder: what is put there becomes a video when nobody writes to it any more."""

import re
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from pytest_django import Settings

from jobs.models import Job
from tests.conftest import StartManage
from tests.support.processes import wait_until
from tests.support.queue.commands import help_of, manage
from tests.support.videos.codes import coded
from tests.support.videos.hostile_files import HLS
from tests.support.videos.video_site import accept, clip, files_in
from tests.support.videos.video_workers import worker_environment
from videos import storage
from videos.exceptions import NotNow, UploadRefused
from videos.models import Subtitle, Transcode, Video, Visibility
from videos.subtitling import Captions
from videos.watching import Outcome, WatchedFolder

pytestmark = pytest.mark.django_db

SRT = b"1\n00:00:00,500 --> 00:00:01,500\nHello\n"


@pytest.fixture
def inbox(videos_root: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


def put(folder: Path, name: str, data: bytes | None = None) -> Path:
    path = folder / name
    path.write_bytes(clip(50).read_bytes() if data is None else data)
    return path


def names_in(folder: Path) -> list[str]:
    return sorted(files_in(folder))


def add(path: Path, captions: Sequence[Captions]) -> Video:
    return accept(path, captions=captions)


def look(watched: WatchedFolder, now: float) -> list[Outcome]:
    return list(watched.look(now))


def test_a_file_is_taken_once_it_has_not_changed_for_a_while(inbox: Path) -> None:
    watched = WatchedFolder(inbox, add, settle=5)
    path = put(inbox, "film.mp4", clip(50).read_bytes()[:1000])
    assert look(watched, 0) == []
    path.write_bytes(clip(50).read_bytes())
    assert look(watched, 6) == [], "it has grown"
    put(inbox, "film.en.srt", SRT)
    assert look(watched, 12) == [], "its subtitles have come"
    assert look(watched, 16) == []
    assert not watched.is_quiet
    (outcome,) = look(watched, 17)
    assert outcome.video == Video.objects.get()
    assert Subtitle.objects.get().language == "en"
    assert names_in(inbox) == ["added/film.en.srt", "added/film.mp4"]
    assert watched.is_quiet
    assert look(watched, 30) == []


def test_what_is_no_video_is_put_aside_with_the_reason(inbox: Path) -> None:
    watched = WatchedFolder(inbox, add, settle=0)
    for _ in range(2):
        put(inbox, "letter.mp4", b"Dear Sir")
        put(inbox, "list.mp4", HLS.format(canary="/etc/passwd").encode())
        assert [outcome.video for outcome in look(watched, 0)] == [None, None]
    assert names_in(inbox) == [
        *("refused/letter-2.mp4", "refused/letter-2.mp4.txt", "refused/letter.mp4", "refused/letter.mp4.txt"),
        *("refused/list-2.mp4", "refused/list-2.mp4.txt", "refused/list.mp4", "refused/list.mp4.txt"),
    ]
    with pytest.raises(UploadRefused, check=coded("text")) as refusal:
        accept(inbox / "refused" / "letter.mp4")
    assert (inbox / "refused" / "letter.mp4.txt").read_text() == f"{refusal.value}\n"
    assert not Video.objects.exists()
    assert files_in(storage.root()) == {}


def test_links_hidden_files_unfinished_ones_and_folders_are_left_alone(inbox: Path, tmp_path: Path) -> None:
    for name in (".film.mp4", "film.mp4.part", "film.mp4.crdownload", "alone.en.srt"):
        put(inbox, name)
    put(tmp_path, "elsewhere.mp4")
    (inbox / "link.mp4").symlink_to(tmp_path / "elsewhere.mp4")
    (inbox / "folder").mkdir()
    put(inbox / "folder", "inside.mp4")
    before = names_in(inbox)
    watched = WatchedFolder(inbox, add, settle=0)
    assert look(watched, 0) == []
    assert watched.is_quiet
    assert names_in(inbox) == before


def test_what_cannot_be_added_now_stays_and_is_tried_again(inbox: Path) -> None:
    full = True

    def add_later(path: Path, captions: Sequence[Captions]) -> Video:
        if full:
            raise NotNow("There is no room.")
        return add(path, captions)

    put(inbox, "film.mp4")
    watched = WatchedFolder(inbox, add_later, settle=5)
    look(watched, 0)
    (outcome,) = look(watched, 5)
    assert (outcome.later, outcome.reason) == (True, "There is no room.")
    assert names_in(inbox) == ["film.mp4"]
    full = False
    assert look(watched, 6) == []
    (outcome,) = look(watched, 11)
    assert outcome.video is not None


def test_a_crash_between_adding_and_moving_adds_nothing_twice(inbox: Path) -> None:
    accept(put(inbox, "film.mp4"))  # and then the power failed
    (outcome,) = look(WatchedFolder(inbox, add, settle=0), 0)
    assert outcome.video is not None
    assert not outcome.video.created
    assert (Video.objects.count(), Transcode.objects.count(), Job.objects.count()) == (1, 1, 1)
    assert names_in(inbox) == ["added/film.mp4"]


def test_a_file_that_vanishes_hurts_nobody(inbox: Path) -> None:
    def vanish(path: Path, captions: Sequence[Captions]) -> Video:
        path.unlink()
        raise UploadRefused("gone")

    put(inbox, "film.mp4")
    (outcome,) = look(WatchedFolder(inbox, vanish, settle=0), 0)
    assert outcome.reason == "gone"
    assert names_in(inbox) == []


def test_once_handles_what_is_there(inbox: Path) -> None:
    put(inbox, "film.mp4")
    put(inbox, "film.de.srt", b"nothing")
    put(inbox, "letter.mp4", b"Dear Sir")
    arguments = ("--once", "--settle=0.1", "--interval=0.01", "--channel=travel", "--visibility=private")
    done = manage("watchfolder", str(inbox), *arguments)
    assert done.code == 1
    video = Video.objects.get()
    assert (video.channel.slug, video.visibility) == ("travel", Visibility.PRIVATE)
    assert re.search(rf"film\.mp4: .*http://127\.0\.0\.1:8000{video.get_absolute_url()}", done.out)
    assert "letter.mp4: " in done.err
    assert re.search(r"film\.mp4: .*film\.de\.srt: ", done.err)
    assert manage("watchfolder", str(inbox), *arguments).code == 0


@pytest.mark.parametrize(
    ("arguments", "site"),
    [
        ([], "https://videos.example.org"),
        (["--site=https://elsewhere.example.org/"], "https://elsewhere.example.org"),
    ],
)
def test_it_says_where_visitors_find_the_video(
    inbox: Path, settings: Settings, arguments: list[str], site: str
) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://*.example.org", "https://videos.example.org"]
    put(inbox, "film.mp4")
    done = manage("watchfolder", str(inbox), "--once", "--settle=0", *arguments)
    assert f"{site}/v/film/" in done.out


@pytest.mark.parametrize(
    "arguments",
    [["nowhere"], [".", "--settle=-1"], [".", "--interval=0"], [".", "--channel=No Slug"]],
)
def test_wrong_arguments_are_refused(videos_root: Path, arguments: list[str]) -> None:
    assert manage("watchfolder", *arguments).code == 2


@pytest.mark.django_db(transaction=True)
def test_it_watches_until_it_is_told_to_stop(inbox: Path, start_manage: StartManage) -> None:
    watcher = start_manage(
        "watchfolder", str(inbox), "--settle=0.2", "--interval=0.05", env=worker_environment()
    )
    for name in ("one.mp4", "two.mp4"):
        put(inbox, name)
        wait_until(lambda name=name: (inbox / "added" / name).exists())  # type: ignore[misc]
    watcher.send_signal(signal.SIGTERM)
    assert watcher.wait(timeout=30) == 0
    assert sorted(Video.objects.values_list("slug", flat=True)) == ["one", "two"]


def test_the_help_tells_where_files_go() -> None:
    text = help_of("watchfolder")
    assert '"added"' in text
    assert "--settle SECONDS" in text
