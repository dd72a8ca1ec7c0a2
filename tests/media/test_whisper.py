"""faster-whisper behind the protocol. Its models are not to be had everywhere: a pretended package stands in for it.

PretendedWhisperModel has the few calls that we make, as faster-whisper 1.2 has them; the last test compares
them with the real package, where that is installed.
"""

import importlib.machinery
import inspect
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from videos.media import recognition
from videos.media.exceptions import FfmpegStopped
from videos.media.recognition import MODEL_FILES, NoEngine, Whisper, two_letters


@dataclass
class PretendedWord:
    word: str
    start: float
    end: float


@dataclass
class PretendedSegment:
    end: float
    words: list[PretendedWord] | None


@dataclass
class PretendedInfo:
    language: str


class PretendedWhisperModel:
    """Hears the same everywhere, and remembers how it was asked."""

    asked: ClassVar[dict[str, Any]] = {}
    supported_languages: ClassVar[list[str]] = ["en", "de", "es", "ja"]

    def __init__(
        self, model_size_or_path: str, device: str, compute_type: str, local_files_only: bool
    ) -> None:
        self.asked.update(model=model_size_or_path, local_files_only=local_files_only)

    def transcribe(
        self, audio: str, language: str | None, word_timestamps: bool
    ) -> tuple[Iterator[PretendedSegment], PretendedInfo]:
        self.asked.update(audio=audio, language=language, word_timestamps=word_timestamps)
        segments = [
            PretendedSegment(1.0, [PretendedWord(" Guten", 0.2, 0.5), PretendedWord(" Tag", 0.5, 0.9)]),
            PretendedSegment(2.0, None),
            PretendedSegment(4.0, [PretendedWord(" <b>&", 3.0, 3.5)]),
        ]
        return iter(segments), PretendedInfo(language or "de")


@dataclass
class Told:
    seconds: list[float] = field(default_factory=list)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    for name in MODEL_FILES:
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def _pretended_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package = types.ModuleType("faster_whisper")
    package.__spec__ = importlib.machinery.ModuleSpec("faster_whisper", None)
    package.WhisperModel = PretendedWhisperModel  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "faster_whisper", package)
    PretendedWhisperModel.asked.clear()


@pytest.fixture
def _no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faster_whisper", None)


@pytest.mark.usefixtures("_pretended_package")
def test_with_package_and_model_it_is_the_first_choice(model: Path) -> None:
    for choice in ("auto", "whisper"):
        engine = recognition.available(choice, whisper_model=str(model))
        assert isinstance(engine, Whisper)
    assert isinstance(
        recognition.available("pocketsphinx", whisper_model=str(model)), recognition.PocketSphinx
    )


@pytest.mark.usefixtures("_pretended_package")
@pytest.mark.parametrize("absent", MODEL_FILES)
def test_without_a_whole_model_auto_falls_back_and_whisper_says_what_is_missing(
    model: Path, absent: str
) -> None:
    (model / absent).unlink()
    assert isinstance(recognition.available("auto", whisper_model=str(model)), recognition.PocketSphinx)
    with pytest.raises(NoEngine, match=re.escape(absent)):
        recognition.available("whisper", whisper_model=str(model))
    with pytest.raises(NoEngine, match="WHISPER_MODEL"):
        recognition.available("whisper")


@pytest.mark.usefixtures("_no_package")
def test_without_the_package_the_message_says_how_to_get_it(model: Path) -> None:
    assert isinstance(recognition.available("auto", whisper_model=str(model)), recognition.PocketSphinx)
    with pytest.raises(NoEngine, match="pip install faster-whisper"):
        recognition.available("whisper", whisper_model=str(model))


@pytest.mark.usefixtures("_pretended_package")
def test_words_become_safe_cues_and_progress_is_told(model: Path) -> None:
    told = Told()
    heard = Whisper(model).listen(Path("speech.wav"), on_progress=told.seconds.append)
    assert [(cue.text, float(cue.start), float(cue.end)) for cue in heard.cues] == [
        ("Guten Tag", 0.2, 0.9),
        ("&lt;b&gt;&amp;", 3.0, 3.5),
    ]
    assert heard.language == "de"
    assert told.seconds == [1.0, 2.0, 4.0]
    assert PretendedWhisperModel.asked == {
        "model": str(model),
        "local_files_only": True,
        "audio": "speech.wav",
        "language": None,
        "word_timestamps": True,
    }


@pytest.mark.usefixtures("_pretended_package")
def test_it_stops_between_two_segments(model: Path) -> None:
    with pytest.raises(FfmpegStopped):
        Whisper(model).listen(Path("speech.wav"), stop=lambda: True)


@pytest.mark.usefixtures("_pretended_package")
@pytest.mark.parametrize(
    ("language", "asked"),
    [("spa", "es"), ("ger", "de"), ("de-AT", "de"), ("jpn", "ja"), ("xx", None), ("tlh", None), ("", None)],
)
def test_a_language_that_it_does_not_know_is_left_to_its_ears(
    model: Path, language: str, asked: str | None
) -> None:
    Whisper(model).listen(Path("speech.wav"), language=language)
    assert PretendedWhisperModel.asked["language"] == asked


def test_codes_of_languages() -> None:
    assert [two_letters(code) for code in ("en", "EN_us", "por", "zho", "mis", "")] == [
        *("en", "en", "pt", "zh", "", "")
    ]


def test_the_real_package_has_what_we_call(tmp_path: Path) -> None:
    faster_whisper = pytest.importorskip("faster_whisper")
    made = inspect.signature(faster_whisper.WhisperModel).parameters
    assert {"device", "compute_type", "local_files_only"} <= made.keys()
    asked = inspect.signature(faster_whisper.WhisperModel.transcribe).parameters
    assert {"language", "word_timestamps"} <= asked.keys()
    assert isinstance(faster_whisper.WhisperModel.supported_languages, property)
    with pytest.raises(RuntimeError, match=r"model\.bin"):
        faster_whisper.WhisperModel(str(tmp_path), local_files_only=True)
