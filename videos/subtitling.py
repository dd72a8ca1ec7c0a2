"""Subtitles: taken from the source's text tracks, uploaded, or recognised; stored as WebVTT of our own making."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs import PermanentFailure, database
from jobs.fleet import finds_capabilities
from jobs.lifecycle import Lease
from jobs.lifecycle.leases import lock_leased
from videos import conf, storage, toolchains
from videos.bench import Bench
from videos.exceptions import UploadRefused
from videos.media import recognition, subtitles, webvtt
from videos.media.recognition import NoEngine, Recogniser
from videos.media.source import SourceInfo
from videos.media.webvtt import BadSubtitles, Cue
from videos.models import Subtitle, SubtitleSource, Video
from videos.workbench import Workbench, clear_errors

UNKNOWN = "und"
TRANSCRIBE = "videos.transcribe"
SPEECH = "speech"
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
        if not is_language(language):
            raise UploadRefused(
                f"{language!r} is no language; use a tag such as en or pt-BR.", code="bad_language"
            )
        return cls(language, label[:100], rewritten(data))


def upload(video: Video, data: bytes, *, language: str, label: str = "") -> Subtitle:
    """Store subtitles of a video, in place of what there is in this language; raises UploadRefused."""
    return replace(video, Captions.of(data, language=language, label=label))[0]


def replace(video: Video, captions: Captions) -> tuple[Subtitle, bool]:
    """The same for captions that were read already. True: the video had none in this language, however it is spelled.

    Raises UploadRefused when the video is gone.
    """

    def write() -> tuple[Subtitle, bool]:
        with database.atomic():
            if not Video.objects.select_for_update(no_key=True).filter(pk=video.pk).exists():
                raise UploadRefused("The video was purged.", code="video_gone")
            present = in_language(video, captions.language)
            given = captions if present is None else dataclasses.replace(captions, language=present.language)
            (stored,) = store_captions(video, [given])
            return stored, present is None

    return database.when_unlocked(write)


def in_language(video: Video, language: str) -> Subtitle | None:
    """The video's subtitles in this language. The case of a tag means nothing: pt-br is pt-BR."""
    found: Subtitle | None = video.subtitles.filter(language__iexact=language).first()
    return found


def remove(video: Video, language: str) -> str | None:
    """Delete the subtitles in this language, whatever their source. Returns its tag as stored; None: there are none."""
    found = in_language(video, language)
    return found.language if found is not None and found.delete()[0] else None


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
            raise UploadRefused(
                f"Two subtitle files are in {given.language!r}; a language has one.", code="language_twice"
            )
        seen.add(given.language.lower())
    return tuple(captions)


def rewritten(data: bytes) -> str:
    """The same subtitles as WebVTT of our own making; raises UploadRefused."""
    try:
        return webvtt.write_webvtt(webvtt.read_captions(data))
    except BadSubtitles as refusal:
        raise UploadRefused(str(refusal), code=refusal.code) from refusal


def text_tracks(info: SourceInfo) -> list[dict[str, Any]]:
    """The source's text tracks, as a transcode remembers them: one per language, the fullest first."""
    chosen: dict[str, dict[str, Any]] = {}
    for track in sorted(info.subtitles, key=lambda track: (track.forced, not track.default)):
        language = track.language if is_language(track.language) else UNKNOWN
        chosen.setdefault(language, {"index": track.index, "language": language, "label": track.title})
    return list(chosen.values())


def extract(bench: Workbench) -> list[str]:
    """Store the text tracks of the source; returns their languages."""
    found = []
    for track, cues in read_tracks(bench, bench.transcode.text_tracks, work=storage.workplace()):
        if cues:
            _store_under_lease(bench, cues, track["language"], track["label"], SubtitleSource.EMBEDDED)
            found.append(track["language"])
    return found


def read_tracks(
    bench: Bench, tracks: Sequence[dict[str, Any]], *, work: Path
) -> Iterator[tuple[dict[str, Any], list[Cue]]]:
    """Each text track with what is in it, on any worker."""
    watch = bench.watch(total=len(tracks), step="subtitles")
    for number, track in enumerate(tracks, start=1):
        with clear_errors(bench):
            cues = subtitles.extract_track(
                bench.plan,
                track["index"],
                source=bench.source,
                work=work,
                ffmpeg_binary=bench.ffmpeg,
                stop=watch.stop,
            )
        yield track, cues
        watch.report(number)


def transcribe(bench: Workbench) -> dict[str, Any]:
    """Recognise what is said in the main sound track; says which engine did it, if there is one."""
    if not _engine():
        let_others_listen(bench.job.lease, bench.job.type)
    heard = listen(bench, work=storage.workplace())
    if heard.cues:
        _store_under_lease(bench, heard.cues, heard.language, "", SubtitleSource.RECOGNISED)
    return heard.result


@dataclass(frozen=True)
class Speech:
    cues: list[Cue]
    language: str
    result: dict[str, Any]
    """What the job's record keeps."""


def listen(bench: Bench, *, work: Path) -> Speech:
    """What is said in the main sound track, on any worker."""
    engine = _engine()
    track = next((track for track in bench.plan.audio if track.default), None)
    if engine is None or track is None or not engine.understands(track.language):
        return Speech([], UNKNOWN, {"engine": None})
    watch = bench.watch(total=float(bench.plan.duration), step="listening")
    with clear_errors(bench):
        heard = subtitles.recognise(
            bench.plan,
            track.number,
            source=bench.source,
            work=work,
            ffmpeg_binary=bench.ffmpeg,
            recogniser=engine,
            language=track.language,
            on_progress=watch.report,
            stop=watch.stop,
        )
    language = next((tag for tag in (track.language, heard.language) if is_language(tag)), UNKNOWN)
    return Speech(
        heard.cues, language, {"engine": engine.name, "cues": len(heard.cues), "language": language}
    )


def _engine() -> Recogniser | None:
    settings = conf.current()
    try:
        return recognition.available(settings.transcriber, whisper_model=settings.whisper_model)
    except NoEngine as error:
        raise PermanentFailure(f"Speech cannot be recognised: {error}") from error


@finds_capabilities
def advertise(job_types: Collection[str]) -> Collection[str]:
    """Whether a worker of this process has an engine that listens."""
    settings = conf.current()
    if TRANSCRIBE not in job_types:
        return ()
    try:
        engine = recognition.available(settings.transcriber, whisper_model=settings.whisper_model)
    except NoEngine:
        return ()
    return [SPEECH] if engine else ()


def let_others_listen(lease: Lease, type_name: str) -> None:
    """For a worker without an engine: the job is put off, if somebody else has one."""
    if toolchains.somebody_can(SPEECH, type_name, beside=lease.worker_id):
        toolchains.put_off(lease, "This is for a worker that recognises speech.")


def is_language(tag: object) -> bool:
    return isinstance(tag, str) and len(tag) <= 20 and bool(_LANGUAGE.fullmatch(tag))


def _store_under_lease(
    bench: Workbench, cues: Iterable[Cue], language: str, label: str, source: SubtitleSource
) -> None:
    with database.atomic():
        lock_leased(bench.job.lease)
        store(bench.transcode.video, cues, language, label, source)


def store(video: Video, cues: Iterable[Cue], language: str, label: str, source: SubtitleSource) -> None:
    """What somebody has uploaded is never replaced."""
    own = Subtitle.objects.filter(video=video, language=language)
    if own.filter(source=SubtitleSource.UPLOADED).exists():
        return
    Subtitle.objects.update_or_create(
        video=video,
        language=language,
        defaults={"label": label[:100], "source": source, "webvtt": webvtt.write_webvtt(cues)},
    )
