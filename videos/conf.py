"""Every setting of the pipeline: its name, its default, what it is for. Read here and nowhere else, live.

A host site writes `VIDEOS = {"SEGMENT_SECONDS": 4, …}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

from django.conf import settings as django_settings

from jobs.settings_schema import SettingsReader, duration, flag, number, text
from videos.media.encoders import hardware_names
from videos.media.ladder import LADDER
from videos.media.plan import PlanSettings
from videos.media.recognition import missing_in_model
from videos.media.source import Limits

PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")


@dataclass(frozen=True)
class VideosSettings:
    root: str = text("", "the folder that holds every file of every video; empty: MEDIA_ROOT/videos")
    upload_max_bytes: int = number(100 * 10**9, "the largest upload")
    upload_rate: int = number(120, "uploads that one user may begin per minute")
    upload_quota_bytes: int = number(
        200 * 10**9, "how many bytes the unfinished resumable uploads of one user may have together"
    )
    upload_quota_files: int = number(50, "how many unfinished resumable uploads one user may have")
    upload_expiry: timedelta = duration(
        "1d", "how long an unfinished resumable upload is kept after its last byte"
    )
    min_free_bytes: int = number(
        10**9, "room that resumable uploads leave on the disk; with less the site is not healthy", minimum=0
    )
    max_duration: timedelta = duration("12h", "the longest video")
    max_pixels: int = number(8192 * 4608, "the largest picture, width times height")
    segment_seconds: int = number(6, "how long a segment is")
    segments_per_chunk: int = number(5, "how many segments one job encodes; a crash costs at most these")
    preset: str = text("veryfast", "the encoder's trade of time for size", choices=PRESETS)
    hardware_encoders: str = text(
        "h264_nvenc,h264_qsv,h264_vaapi",
        "encoders on a GPU in the order of preference, used where a test encode has worked; none: libx264 only",
    )
    ffmpeg: str = text("", "the path of ffmpeg; empty: the one that imageio-ffmpeg ships")
    critical_qualities: str = text(
        "all", "qualities without which a transcode fails: all, none, or names such as 720p,360p"
    )
    transcriber: str = text(
        "auto", "what recognises speech", choices=("auto", "whisper", "pocketsphinx", "off")
    )
    whisper_model: str = text("", "the folder of a faster-whisper model; empty: there is none")
    keep_completed_qualities: bool = flag(True, "a retry encodes only what is missing")
    cleanup_partial_on_failure: bool = flag(True, "files of a failed transcode are removed")
    failed_generation_grace: timedelta = duration(
        "7d", "how long a failed transcode's finished parts are kept for a retry"
    )
    generation_grace: timedelta = duration(
        "1h", "how long a replaced generation stays for those who are watching it"
    )

    @property
    def folder(self) -> Path:
        return Path(self.root) if self.root else Path(django_settings.MEDIA_ROOT) / "videos"

    @property
    def plan_settings(self) -> PlanSettings:
        return PlanSettings(
            segment_seconds=Fraction(self.segment_seconds),
            segments_per_chunk=self.segments_per_chunk,
            preset=self.preset,
        )

    @property
    def preferred_encoders(self) -> list[str]:
        """Those on a GPU, best first."""
        return _names(self.hardware_encoders)

    @property
    def limits(self) -> Limits:
        return Limits(duration=self.max_duration.total_seconds(), pixels=self.max_pixels)

    def is_critical(self, quality: str) -> bool:
        return self.critical_qualities == "all" or quality in _names(self.critical_qualities)


def _names(listed: str) -> list[str]:
    return [] if listed == "none" else [name.strip() for name in listed.split(",") if name.strip()]


def _contradictions(settings: VideosSettings) -> list[str]:
    problems = []
    known = {rung.name for rung in LADDER}
    if settings.critical_qualities != "all":
        unknown = [name for name in _names(settings.critical_qualities) if name not in known]
        problems += [
            f"VIDEOS['CRITICAL_QUALITIES'] names {name!r}, which is not on the ladder ({', '.join(sorted(known))})."
            for name in unknown
        ]
    for name in settings.preferred_encoders:
        if name not in hardware_names():
            problems.append(
                f"VIDEOS['HARDWARE_ENCODERS'] names {name!r}; known are {', '.join(hardware_names())}."
            )
    if not settings.root and not django_settings.MEDIA_ROOT:
        problems.append("VIDEOS['ROOT'] is empty and there is no MEDIA_ROOT; set one of them to a folder.")
    if settings.root and not Path(settings.root).is_absolute():
        problems.append(f"VIDEOS['ROOT'] must be an absolute path, not {settings.root!r}.")
    if settings.ffmpeg and not Path(settings.ffmpeg).is_file():
        problems.append(f"VIDEOS['FFMPEG']: there is no file {settings.ffmpeg}.")
    if settings.transcriber == "whisper" or settings.whisper_model:
        # The package is asked for by the job: not every host that shares these settings recognises speech.
        missing = missing_in_model(settings.whisper_model)
        problems += [f"VIDEOS['WHISPER_MODEL']: {missing}"] if missing else []
    return problems


_reader = SettingsReader("VIDEOS", VideosSettings, _contradictions)
current = _reader.current
find_problems = _reader.find_problems
