"""Subtitle files beside a video: found by their names, or named; made safe, and published with it."""

import errno
import os
import re
from pathlib import Path

import pytest

from jobs.models import Job
from jobs.testing import run_due_jobs
from tests.support.queue.commands import help_of, manage
from tests.support.videos.codes import coded
from tests.support.videos.video_site import accept, check_published, clip, current, files_in
from videos import sidecars, storage
from videos.exceptions import UploadRefused
from videos.models import Subtitle, SubtitleSource, Video
from videos.subtitling import Captions

pytestmark = pytest.mark.django_db

SRT = "1\n00:00:00,500 --> 00:00:01,500\n{}\n"


@pytest.fixture
def film(videos_root: Path, tmp_path: Path) -> Path:
    path = tmp_path / "film.mp4"
    path.write_bytes(clip(50).read_bytes())
    return path


def write(path: Path, text: str = "Hello", encoding: str = "utf-8") -> Path:
    path.write_bytes(SRT.format(text).encode(encoding))
    return path


def languages_beside(film: Path) -> dict[str, str]:
    return {sidecar.path.name: sidecar.language for sidecar in sidecars.beside(film)}


def test_files_that_bear_the_videos_name_are_found(film: Path) -> None:
    for name in (
        *("film.srt", "film.en.srt", "film.pt-BR.VTT", "film.en.vtt"),
        *("film.final.srt", "film.txt", "films.de.srt", "other.fr.srt", "film.en.srt.bak"),
    ):
        write(film.with_name(name))
    (film.parent / "film.es.srt").mkdir()
    assert languages_beside(film) == {"film.srt": "und", "film.en.srt": "en", "film.pt-BR.VTT": "pt-BR"}


@pytest.mark.parametrize(
    ("text", "name", "language"),
    [
        ("a.srt:de", "a.srt", "de"),
        ("a.srt", "a.srt", "und"),
        ("film.en.srt", "film.en.srt", "en"),
        ("film.en.srt:pt-BR", "film.en.srt", "pt-BR"),
        ("odd:name.srt", "odd:name.srt", "und"),
        ("folder.de/a.srt", "folder.de/a.srt", "und"),
    ],
)
def test_a_file_may_be_named_with_its_language(text: str, name: str, language: str) -> None:
    assert sidecars.named(text) == sidecars.Sidecar(Path(name), language)


def test_addvideo_takes_what_lies_beside_the_film_and_publishes_it(film: Path) -> None:
    write(film.with_name("film.en.srt"), "Hello <i>you</i><script>alert(1)</script>")
    write(film.with_name("film.de.srt"), "Grüße", "cp1252")
    done = manage("addvideo", str(film))
    assert (done.code, done.err) == (0, "")
    assert re.search(r"film\.mp4: .*\(de, en\), http://", done.out)
    video = Video.objects.get()
    assert set(video.subtitles.values_list("source", flat=True)) == {SubtitleSource.UPLOADED}
    run_due_jobs()
    check_published(video)
    folder = storage.generation(current(video))
    assert "Hello <i>you</i>alert(1)" in (folder / "captions" / "en.vtt").read_text()
    assert "Grüße" in (folder / "captions" / "de.vtt").read_text()
    master = (folder / "master.m3u8").read_text()
    assert 'URI="captions/en.m3u8"' in master
    assert 'URI="captions/de.m3u8"' in master


def test_they_are_there_before_the_first_job(film: Path) -> None:
    video = accept(film, captions=[Captions.of(SRT.format("Hello").encode(), language="en")])
    assert Subtitle.objects.get().video == video
    assert Job.objects.get().type == "videos.probe"


def test_a_bad_file_beside_the_film_is_named_and_left_out(film: Path) -> None:
    film.with_name("film.en.srt").write_bytes(b"nothing to read")
    write(film.with_name("film.de.srt"))
    done = manage("addvideo", str(film))
    assert done.code == 0
    assert "film.en.srt: " in done.err
    assert Subtitle.objects.get().language == "de"


def test_a_bad_file_that_was_named_refuses_the_upload(film: Path, videos_root: Path) -> None:
    bad, good = film.with_name("bad.srt"), write(film.with_name("good.srt"))
    bad.write_bytes(b"nothing to read")
    huge = film.with_name("huge.srt")
    with huge.open("wb") as file:
        file.truncate(1 << 40)
    for given, code, told in (
        ([f"{bad}:en"], "no_subtitles", "bad.srt: "),
        ([f"{huge}:en"], "subtitles_too_large", "huge.srt: "),
        ([f"{film.parent}:en"], "unreadable", os.strerror(errno.EISDIR)),
        ([f"{film.parent}/none.srt:en"], "unreadable", os.strerror(errno.ENOENT)),
        ([f"{good}:en", f"{good}:EN"], "language_twice", "'EN'"),
    ):
        with pytest.raises(UploadRefused, check=coded(code)):
            accept(film, captions=[sidecars.named(name).read() for name in given])
        arguments = [word for name in given for word in ("--subtitles", name)]
        done = manage("addvideo", str(film), *arguments)
        assert done.code == 1
        assert told in done.err
    assert not Video.objects.exists()
    assert files_in(videos_root) == {}


def test_named_files_replace_those_beside_the_film_and_none_may_be_wanted(film: Path) -> None:
    write(film.with_name("film.en.srt"))
    named = write(film.with_name("other.srt"))
    manage("addvideo", str(film), "--subtitles", f"{named}:fr", "--slug", "one")
    assert list(Subtitle.objects.values_list("language", flat=True)) == ["fr"]
    manage("addvideo", str(film), "--no-sidecars", "--slug", "two")
    assert Subtitle.objects.count() == 1


def test_a_video_that_is_there_keeps_its_own_subtitles(film: Path) -> None:
    write(film.with_name("film.en.srt"), "First")
    manage("addvideo", str(film))
    write(film.with_name("film.en.srt"), "Second")
    assert manage("addvideo", str(film)).code == 0
    assert Video.objects.count() == 1
    assert "First" in Subtitle.objects.get().webvtt


@pytest.mark.parametrize(
    "data",
    [
        SRT.format("Hi").encode("utf-16-le"),
        SRT.format("Hi").encode("utf-16-be"),
        SRT.format("Hi").encode("utf-16"),
        SRT.format("Hi \x81\x8d").encode("latin-1"),
        SRT.format("Hi").encode() + b"\xff\xfe\x00\x00",
        SRT.format("Hi \ud800").encode("utf-8", "surrogatepass"),
        SRT.format("Hi \x00 \u202e\u2066").encode(),
    ],
)
def test_whatever_the_encoding_the_words_are_readable_and_nothing_breaks(data: bytes) -> None:
    text = Captions.of(data, language="en").webvtt
    assert "Hi" in text
    assert "\x00" not in text
    assert "\u202e" not in text
    text.encode()


def test_only_a_single_file_has_named_subtitles(film: Path) -> None:
    other = film.with_name("other.mp4")
    other.write_bytes(film.read_bytes())
    done = manage("addvideo", str(film), str(other), "--subtitles", "a.srt:en")
    assert done.code == 2
    with pytest.raises(UploadRefused, check=coded("bad_language")):
        Captions.of(SRT.format("Hi").encode(), language="../en")


def test_the_help_tells_how() -> None:
    text = help_of("addvideo")
    assert "--subtitles FILE[:LANGUAGE]" in text
    assert "film.en.srt" in text
