"""Text tracks inside a source, and what is said in it."""

import importlib.util
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from tests.support.videos.media_clips import LIMITS, binary, make_clip, plan_for, run_ffmpeg, spoken_english
from videos.media import recognition, subtitles
from videos.media.probe import probe
from videos.media.recognition import Heard, cues_of
from videos.media.webvtt import Cue

SRT = """1
00:00:00,500 --> 00:00:01,500
First <i>words</i>

2
00:00:02,000 --> 00:00:03,000
<b>Second</b> & last
"""


@pytest.mark.parametrize(
    ("name", "codec"), [("x.mkv", "srt"), ("x.mkv", "ass"), ("x.mp4", "mov_text"), ("x.webm", "webvtt")]
)
def test_a_text_track_is_extracted(tmp_path: Path, name: str, codec: str) -> None:
    srt = tmp_path / "text.srt"
    srt.write_text(SRT)
    video = (
        ("-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8")
        if name == "x.webm"
        else ("-c:v", "libx264")
    )
    clip = make_clip(tmp_path / f"plain-{name}", frames=100, sounds=(), video=video)
    source = tmp_path / name
    run_ffmpeg(
        *("-i", clip, "-i", srt, "-map", "0", "-map", "1", "-c", "copy", "-c:s", codec),
        *("-metadata:s:s:0", "language=eng", source),
    )
    info = probe(source)
    (track,) = info.subtitles
    assert track.language == "eng"
    cues = subtitles.extract_track(
        plan_for(source),
        track.index,
        source=source,
        work=tmp_path / "work",
        ffmpeg_binary=binary(),
        limits=LIMITS,
    )
    assert [(float(cue.start), float(cue.end)) for cue in cues] == [(0.5, 1.5), (2.0, 3.0)]
    assert cues[0].text in ("First <i>words</i>", "First words")
    assert cues[1].text in ("<b>Second</b> &amp; last", "Second &amp; last")
    assert list((tmp_path / "work").iterdir()) == []


def test_times_of_a_text_track_count_from_the_first_picture(tmp_path: Path) -> None:
    srt = tmp_path / "text.srt"
    srt.write_text(SRT)
    clip = make_clip(tmp_path / "plain.mp4", frames=100, sounds=())
    source = tmp_path / "late.mkv"
    run_ffmpeg(
        *("-itsoffset", "100", "-i", clip, "-itsoffset", "100", "-i", srt, "-map", "0", "-map", "1"),
        *("-c:v", "copy", "-c:s", "srt", "-copyts", source),
    )
    plan = plan_for(source)
    assert plan.origin == 100
    cues = subtitles.extract_track(
        plan, 1, source=source, work=tmp_path / "work", ffmpeg_binary=binary(), limits=LIMITS
    )
    assert [float(cue.start) for cue in cues] == [0.5, 2.0]


def test_an_engine_hears_the_sound_on_the_plans_clock(tmp_path: Path) -> None:
    class Beeps:
        """Hears nothing but the file's length."""

        name = "beeps"

        def understands(self, language: str) -> bool:
            return True

        def listen(
            self,
            sound: Path,
            *,
            language: str = "",
            on_progress: Callable[[float], None] | None = None,
            stop: Callable[[], bool] | None = None,
        ) -> Heard:
            assert on_progress is not None
            on_progress(1)
            samples = (sound.stat().st_size - 44) // 2
            assert abs(samples / recognition.SPEECH_RATE - 4) < 0.05
            return Heard([Cue(start=Fraction(1), end=Fraction(9), text=language)], language="en")

    source = make_clip(tmp_path / "late.ts", frames=100, output=("-output_ts_offset", "500"))
    told: list[float] = []
    heard = subtitles.recognise(
        plan_for(source),
        1,
        source=source,
        work=tmp_path / "work",
        ffmpeg_binary=binary(),
        recogniser=Beeps(),
        language="en",
        limits=LIMITS,
        on_progress=told.append,
    )
    assert heard == Heard([Cue(start=Fraction(1), end=Fraction(4), text="en")], language="en")
    assert told == [1]


def test_words_become_readable_cues() -> None:
    words = [(f"w{n}", n * 0.4, n * 0.4 + 0.3) for n in range(30)] + [
        ("after", 20.0, 20.5),
        ("<pause>", 21.3, 21.4),
    ]
    cues = cues_of(words)
    assert [cue.text.split()[0] for cue in cues] == ["w0", "w14", "w28", "after", "&lt;pause&gt;"]
    assert all(cue.end - cue.start <= 7 for cue in cues)
    assert cues_of([]) == []


def test_engines_are_chosen_by_what_is_installed(tmp_path: Path) -> None:
    assert recognition.available("off") is None
    found = recognition.available("auto", whisper_model=str(tmp_path / "nothing"))
    assert (found is not None) == bool(importlib.util.find_spec("pocketsphinx"))


def test_silence_has_no_words(tmp_path: Path) -> None:
    pytest.importorskip("pocketsphinx")
    sound = tmp_path / "silence.wav"
    run_ffmpeg("-f", "lavfi", "-i", "anullsrc=r=16000:cl=mono", "-t", "3", sound)
    assert recognition.PocketSphinx().listen(sound).cues == []


def test_english_is_recognised(tmp_path: Path) -> None:
    pytest.importorskip("pocketsphinx")
    sound = spoken_english(tmp_path / "speech.wav", 8)
    engine = recognition.PocketSphinx()
    assert engine.understands("en-GB")
    assert not engine.understands("de")
    heard = engine.listen(sound)
    cues = heard.cues
    assert heard.language == "en"
    text = " ".join(cue.text for cue in cues)
    assert "best of times" in text
    assert "worst of times" in text
    assert 0 < cues[0].start < 2
