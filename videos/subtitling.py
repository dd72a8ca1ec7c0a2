"""Subtitles: taken from the source's text tracks, uploaded, or recognised; stored as WebVTT of our own making."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jobs import PermanentFailure, database
from jobs.lifecycle.leases import lock_leased
from videos import conf, storage
from videos.exceptions import UploadRefused
from videos.media import recognition, subtitles, webvtt
from videos.media.recognition import NoEngine
from videos.media.source import SourceInfo
from videos.media.webvtt import BadSubtitles, Cue
from videos.models import Subtitle, SubtitleSource, Video
from videos.workbench import Workbench, clear_errors

UNKNOWN = "und"
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")


@dataclass(frozen=True)
class Captions:
    """An SRT or WebVTT file that somebody has given, written anew: nothing of its markup is passed on as it is."""

    language: str
    label: str
    webvtt: str

    @classmethod
    def of(cls, data: bytes, *, language: str, label: str = "") -> Captions:
        """Raises UploadRefused."""
        if not _LANGUAGE.fullmatch(language) or len(language) > 20:
            raise UploadRefused(f"{language!r} is no language; use a tag such as en or pt-BR.")
        return cls(language, label[:100], rewritten(data))


def upload(video: Video, data: bytes, *, language: str, label: str = "") -> Subtitle:
    """Store subtitles of a video, in place of what there is in this language; raises UploadRefused."""
    (subtitle,) = store_captions(video, [Captions.of(data, language=language, label=label)])
    return subtitle


def store_captions(video: Video, captions: Iterable[Captions]) -> list[Subtitle]:
    return [
        Subtitle.objects.update_or_create(
            video=video,
            language=given.language,
            defaults={"label": given.label, "source": SubtitleSource.UPLOADED, "webvtt": given.webvtt},
        )[0]
        for given in captions
    ]


def one_per_language(captions: Sequence[Captions]) -> tuple[Captions, ...]:
    """The same, or UploadRefused when two are in one language."""
    seen: set[str] = set()
    for given in captions:
        if given.language.lower() in seen:
            raise UploadRefused(f"Two subtitle files are in {given.language!r}; a language has one.")
        seen.add(given.language.lower())
    return tuple(captions)


def rewritten(data: bytes) -> str:
    """The same subtitles as WebVTT of our own making; raises UploadRefused."""
    try:
        return webvtt.write_webvtt(webvtt.read_captions(data))
    except BadSubtitles as refusal:
        raise UploadRefused(str(refusal)) from refusal


def text_tracks(info: SourceInfo) -> list[dict[str, Any]]:
    """The source's text tracks, as a transcode remembers them: one per language, the fullest first."""
    chosen: dict[str, dict[str, Any]] = {}
    for track in sorted(info.subtitles, key=lambda track: (track.forced, not track.default)):
        language = track.language if _LANGUAGE.fullmatch(track.language) else UNKNOWN
        chosen.setdefault(language, {"index": track.index, "language": language, "label": track.title})
    return list(chosen.values())


def extract(bench: Workbench) -> list[str]:
    """Store the text tracks of the source; returns their languages."""
    found = []
    watch = bench.watch(total=len(bench.transcode.text_tracks), step="subtitles")
    for number, track in enumerate(bench.transcode.text_tracks):
        with clear_errors(bench):
            cues = subtitles.extract_track(
                bench.plan,
                track["index"],
                source=bench.source,
                work=storage.workplace(),
                ffmpeg_binary=bench.ffmpeg,
                stop=watch.stop,
            )
        if cues:
            _store(bench, cues, track["language"], track["label"], SubtitleSource.EMBEDDED)
            found.append(track["language"])
        watch.report(number + 1)
    return found


def transcribe(bench: Workbench) -> dict[str, Any]:
    """Recognise what is said in the main sound track; says which engine did it, if there is one."""
    settings = conf.current()
    try:
        engine = recognition.available(settings.transcriber, whisper_model=settings.whisper_model)
    except NoEngine as error:
        raise PermanentFailure(f"Speech cannot be recognised: {error}") from error
    track = next((track for track in bench.plan.audio if track.default), None)
    if engine is None or track is None or not engine.understands(track.language):
        return {"engine": None}
    watch = bench.watch(total=float(bench.plan.duration), step="listening")
    with clear_errors(bench):
        heard = subtitles.recognise(
            bench.plan,
            track.number,
            source=bench.source,
            work=storage.workplace(),
            ffmpeg_binary=bench.ffmpeg,
            recogniser=engine,
            language=track.language,
            on_progress=watch.report,
            stop=watch.stop,
        )
    if heard.cues:
        said = (track.language, heard.language)
        language = next((tag for tag in said if _LANGUAGE.fullmatch(tag)), UNKNOWN)
        _store(bench, heard.cues, language, "", SubtitleSource.RECOGNISED)
    return {"engine": engine.name, "cues": len(heard.cues)}


def _store(bench: Workbench, cues: Iterable[Cue], language: str, label: str, source: SubtitleSource) -> None:
    """Bound to the lease. What somebody has uploaded is never replaced."""
    with database.atomic():
        lock_leased(bench.job.lease)
        own = Subtitle.objects.filter(video=bench.transcode.video, language=language)
        if own.filter(source=SubtitleSource.UPLOADED).exists():
            return
        Subtitle.objects.update_or_create(
            video=bench.transcode.video,
            language=language,
            defaults={"label": label[:100], "source": source, "webvtt": webvtt.write_webvtt(cues)},
        )
