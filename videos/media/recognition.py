"""Speech to captions, behind one small protocol.

pocketsphinx comes with its English model and works anywhere, roughly. faster-whisper is far better and knows many
languages; it is used where it is installed together with a model. Nothing is ever downloaded from here.
"""

import importlib.util
import re
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from videos.media.exceptions import FfmpegStopped, MediaError
from videos.media.webvtt import Cue, plain_text

SPEECH_RATE = 16000
LONGEST_CUE = 7.0
WORDS_PER_CUE = 14
PAUSE = 0.7


@dataclass(frozen=True)
class Heard:
    """What an engine has understood."""

    cues: list[Cue]
    language: str
    """In which language; "" if the engine cannot tell."""


class Recogniser(Protocol):
    """Something that listens."""

    name: str

    def understands(self, language: str) -> bool:
        """Whether it knows a language ("" is unknown)."""
        ...

    def listen(
        self,
        sound: Path,
        *,
        language: str = "",
        on_progress: Callable[[float], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Heard:
        """What is said in a WAV file of 16 kHz, one channel, 16 bits. `language` is "" if nobody knows it."""
        ...


class NoEngine(MediaError):
    """The engine that was asked for cannot be used here. The text says what is missing."""

    code = "no_engine"


def available(choice: str = "auto", *, whisper_model: str = "") -> Recogniser | None:
    """The engine to use: "auto" takes the best that is installed, if any; None for "off".

    Raises NoEngine when "whisper" or "pocketsphinx" was asked for by name and is not there.
    """
    if choice in ("auto", "whisper"):
        missing = missing_for_whisper(whisper_model)
        if not missing:
            return Whisper(Path(whisper_model))
        if choice == "whisper":
            raise NoEngine(missing)
    if choice in ("auto", "pocketsphinx"):
        if importlib.util.find_spec("pocketsphinx"):
            return PocketSphinx()
        if choice == "pocketsphinx":
            raise NoEngine("pocketsphinx is not installed: pip install pocketsphinx.")
    return None


MODEL_FILES = ("model.bin", "config.json", "tokenizer.json")
"""Without a tokenizer of its own, faster-whisper would download one."""


def missing_for_whisper(model: str) -> str:
    """What whisper lacks here, as a sentence; "" if it can be used."""
    if not importlib.util.find_spec("faster_whisper"):
        return "faster-whisper is not installed: pip install faster-whisper."
    return missing_in_model(model)


def missing_in_model(model: str) -> str:
    if not model:
        return "faster-whisper has no model: set WHISPER_MODEL to the folder of one."
    absent = [name for name in MODEL_FILES if not (Path(model) / name).is_file()]
    if absent:
        return f"{model} is no model of faster-whisper: it has no {', '.join(absent)}."
    return ""


Word = tuple[str, float, float]


def cues_of(words: list[Word]) -> list[Cue]:
    """Words with their times, put together to cues that can be read: cut at pauses and when long enough."""
    cues: list[Cue] = []
    line: list[Word] = []
    for word in words:
        if line and (
            word[1] - line[-1][2] > PAUSE or word[2] - line[0][1] > LONGEST_CUE or len(line) >= WORDS_PER_CUE
        ):
            cues.append(_cue(line))
            line = []
        line.append(word)
    if line:
        cues.append(_cue(line))
    return [cue for cue in cues if cue.text and cue.start < cue.end]


def _cue(words: list[Word]) -> Cue:
    return Cue(
        start=_milliseconds(words[0][1]),
        end=_milliseconds(words[-1][2]),
        text=plain_text(" ".join(word for word, _, _ in words)),
    )


def _milliseconds(seconds: float) -> Fraction:
    return Fraction(round(seconds * 1000), 1000)


class PocketSphinx:
    """The engine in the wheel: English, small, always there."""

    name = "pocketsphinx"

    def understands(self, language: str) -> bool:
        return language.lower()[:2] in ("", "en")

    def listen(
        self,
        sound: Path,
        *,
        language: str = "",
        on_progress: Callable[[float], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Heard:
        import pocketsphinx  # type: ignore[import-not-found, import-untyped, unused-ignore]

        decoder = pocketsphinx.Decoder(samprate=SPEECH_RATE, loglevel="FATAL")
        words: list[Word] = []
        for start, speech in self._utterances(pocketsphinx, sound):
            if stop is not None and stop():
                raise FfmpegStopped("Stopped as asked.")
            decoder.start_utt()
            decoder.process_raw(speech, full_utt=True)
            decoder.end_utt()
            for part in decoder.seg():
                word = part.word.split("(")[0]  # "read(2)" is a second way to say it
                if not word.startswith(("<", "[", "+")) and word:
                    words.append((word, start + part.start_frame / 100, start + (part.end_frame + 1) / 100))
            if on_progress is not None:
                on_progress(start + len(speech) / 2 / SPEECH_RATE)
        return Heard(cues_of(words), language="en")

    def _utterances(self, pocketsphinx: Any, sound: Path) -> Iterator[tuple[float, bytes]]:
        """Stretches of speech between silences, with the second at which each starts."""
        endpointer = pocketsphinx.Endpointer(sample_rate=SPEECH_RATE)
        start = 0.0
        parts: list[bytes] = []
        with wave.open(str(sound), "rb") as file:
            size = endpointer.frame_bytes // 2
            while True:
                frame = file.readframes(size)
                if len(frame) < endpointer.frame_bytes:
                    speech = endpointer.end_stream(frame) if frame else None
                else:
                    speech = endpointer.process(frame)
                if speech:
                    if not parts:
                        start = endpointer.speech_start
                    parts.append(speech)
                ended = len(frame) < endpointer.frame_bytes
                # A talker without pauses is cut anyway: an utterance is decoded as a whole, in memory.
                long = sum(map(len, parts)) > 30 * SPEECH_RATE * 2
                if parts and (ended or not endpointer.in_speech or long):
                    yield start, b"".join(parts)
                    start, parts = start + sum(map(len, parts)) / 2 / SPEECH_RATE, []
                if ended:
                    return


class Whisper:
    """faster-whisper, with a model from a folder."""

    name = "whisper"

    def __init__(self, model: Path) -> None:
        self.model = model

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
        from faster_whisper import WhisperModel  # type: ignore[import-not-found, import-untyped, unused-ignore]

        model = WhisperModel(str(self.model), device="auto", compute_type="int8", local_files_only=True)
        known = two_letters(language)
        segments, info = model.transcribe(
            str(sound), language=known if known in model.supported_languages else None, word_timestamps=True
        )
        words: list[Word] = []
        for segment in segments:  # decoded one by one, as they are asked for
            if stop is not None and stop():
                raise FfmpegStopped("Stopped as asked.")
            words += [(word.word.strip(), word.start, word.end) for word in segment.words or ()]
            if on_progress is not None:
                on_progress(float(segment.end))
        return Heard(cues_of(words), language=info.language)


def two_letters(language: str) -> str:
    """The code that whisper knows a language by; "" if we cannot tell, and it had better listen itself.

    Files have three letters, and not always the first two of them are the code ("spa" is es, "ger" is de).
    """
    code = re.split("[-_]", language.lower())[0]
    return code if len(code) == 2 else _TWO_LETTERS.get(code, "")


_CODES = (
    "ara:ar bul:bg ces:cs cze:cs chi:zh dan:da deu:de dut:nl ell:el eng:en fas:fa fin:fi fra:fr fre:fr ger:de "
    "gre:el heb:he hin:hi hrv:hr hun:hu ind:id ita:it jpn:ja kor:ko may:ms nld:nl nor:no per:fa pol:pl por:pt "
    "ron:ro rum:ro rus:ru slk:sk slo:sk slv:sl spa:es srp:sr swe:sv tam:ta tha:th tur:tr ukr:uk urd:ur vie:vi "
    "zho:zh"
)
_TWO_LETTERS = dict(pair.split(":") for pair in _CODES.split())
