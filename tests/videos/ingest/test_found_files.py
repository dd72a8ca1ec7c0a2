"""Folders and patterns given to addvideo: which files they mean, and that all of them become videos."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from jobs.testing import run_due_jobs
from tests.support.queue.commands import help_of, manage
from tests.support.videos.video_site import check_published, clip
from videos import found_files
from videos.models import Channel, Video

FILMS = ("a.mp4", "below/b.mkv", "below/deeper/c.mov")
OTHERS = (
    *("a.en.srt", "below/b.vtt", "c.mp4.part", "d.TMP", ".hidden.mp4"),
    *(".trash/e.mp4", "below/.trash/f.mp4"),
)


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    shelf = tmp_path / "shelf"
    for name in (*FILMS, *OTHERS):
        path = shelf / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (shelf / "link.mp4").symlink_to(shelf / "a.mp4")
    (shelf / "round").symlink_to(shelf)
    (shelf / "empty").mkdir()
    os.mkfifo(shelf / "pipe.mp4")
    return shelf


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ("", FILMS),
        ("below", FILMS[1:]),
        ("a.mp4", ["a.mp4"]),
        ("*.mp4", ["a.mp4"]),
        ("**/*.m[ko]v", FILMS[1:]),
        ("*", FILMS),
        ("**", FILMS),
        ("bel?w", FILMS[1:]),
        ("empty", []),
        ("*.avi", []),
        ("missing.mp4", ["missing.mp4"]),
        ("link.mp4", ["link.mp4"]),
    ],
)
def test_what_somebody_means(shelf: Path, named: str, meant: list[str]) -> None:
    assert [str(path.relative_to(shelf)) for path in found_files.meant_by(shelf / named)] == list(meant)


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    odd = tmp_path / "part [1].mp4"
    odd.touch()
    assert found_files.meant_by(odd) == [odd]


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """Two films, one with subtitles, and a letter."""
    inbox = tmp_path / "inbox"
    (inbox / "2026").mkdir(parents=True)
    (inbox / "one.mp4").write_bytes(clip(50).read_bytes())
    (inbox / "2026" / "two.mp4").write_bytes(clip(75).read_bytes())
    (inbox / "2026" / "two.en.srt").write_text("1\n00:00:00,500 --> 00:00:01,500\nHello\n")
    return inbox


@pytest.mark.django_db
def test_a_folder_and_a_pattern_become_videos_that_can_be_watched(videos_root: Path, inbox: Path) -> None:
    done = manage("addvideo", str(inbox), f"{inbox}/**/*.mp4", "--channel", "travel")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"one\.mp4: .*http://", done.out)
    assert re.search(r"two\.mp4: .*\(en\), http://", done.out)
    assert Video.objects.count() == 2
    run_due_jobs()
    for video in Video.objects.all():
        check_published(video)
        assert video.channel.slug == "travel"
    again = manage("addvideo", str(inbox), "--channel", "travel", "--wait")
    assert again.code == 0
    assert again.out.count("/v/one/") == 2, "it is there already, and it is ready"
    assert Video.objects.count() == 2


@pytest.mark.django_db
def test_what_is_no_video_is_told_and_the_others_are_added(videos_root: Path, inbox: Path) -> None:
    (inbox / "letter.txt").write_text("Dear grandma")
    done = manage("addvideo", str(inbox))
    assert done.code == 1
    assert [line.partition(": ")[0] for line in done.err.splitlines()] == [str(inbox / "letter.txt")]
    assert set(Video.objects.values_list("title", flat=True)) == {"one", "two"}


@pytest.mark.django_db
@pytest.mark.parametrize("named", ["", "*.avi"], ids=["an empty folder", "a pattern"])
def test_where_there_is_nothing_nothing_is_begun(videos_root: Path, tmp_path: Path, named: str) -> None:
    done = manage("addvideo", str(tmp_path / named))
    assert done.code == 2
    assert str(tmp_path / named) in done.err
    assert not Channel.objects.exists()


@pytest.mark.django_db
def test_a_title_is_for_a_single_file(videos_root: Path, inbox: Path) -> None:
    assert manage("addvideo", str(inbox), "--title", "Both").code == 2
    assert manage("addvideo", str(inbox / "2026"), "--title", "The one").code == 0
    assert Video.objects.get().title == "The one"


def test_the_help_shows_a_folder_and_a_pattern() -> None:
    assert 'addvideo /srv/films "/srv/talks/**/*.mkv"' in help_of("addvideo")
