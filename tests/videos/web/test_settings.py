"""Settings of the pipeline: refused at start-up when they make no sense."""

from pathlib import Path

import pytest
from django.core.checks import run_checks
from pytest_django import Settings

from videos import conf


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("SEGMENT_SECONDS", "0", "SEGMENT_SECONDS"),
        ("SEGMENTS_PER_CHUNK", "many", "SEGMENTS_PER_CHUNK"),
        ("PRESET", "warp", "ultrafast"),
        ("CRITICAL_QUALITIES", "720p,721p", "'721p'"),
        ("HARDWARE_ENCODERS", "h264_nvenc,libx264", "'libx264'"),
        ("ROOT", "relative/folder", "ROOT"),
        ("FFMPEG", "/nowhere/ffmpeg", "/nowhere/ffmpeg"),
        ("TRANSCRIBER", "whisper", "WHISPER_MODEL"),
        ("WHISPER_MODEL", "/nowhere", "model.bin"),
        ("GENERATION_GRACE", "-1", "GENERATION_GRACE"),
        ("KEEP_COMPLETED_QUALITIES", "maybe", "KEEP_COMPLETED_QUALITIES"),
        ("SEGMENT_SECOND", "6", "SEGMENT_SECONDS"),
    ],
)
@pytest.mark.django_db
def test_nonsense_is_refused_by_a_system_check(settings: Settings, key: str, value: str, named: str) -> None:
    settings.VIDEOS = {key: value}
    (error,) = (message for message in run_checks() if message.id == "videos.E001")
    assert named in error.msg


def test_without_a_folder_there_is_nowhere_to_put_a_video(settings: Settings) -> None:
    settings.VIDEOS, settings.MEDIA_ROOT = {}, ""
    assert "MEDIA_ROOT" in conf.find_problems({})[0]


def test_the_folder_is_below_media_root_unless_it_is_given(settings: Settings, tmp_path: Path) -> None:
    settings.VIDEOS, settings.MEDIA_ROOT = {}, str(tmp_path)
    assert conf.current().folder == tmp_path / "videos"
    settings.VIDEOS = {"ROOT": "/elsewhere"}
    assert conf.current().folder == Path("/elsewhere")


@pytest.mark.parametrize(
    ("value", "critical"), [("all", ["720p", "360p"]), ("none", []), (" 720p , 1080p", ["720p"])]
)
def test_critical_qualities(settings: Settings, value: str, critical: list[str]) -> None:
    settings.VIDEOS = {"CRITICAL_QUALITIES": value}
    assert [name for name in ("720p", "360p") if conf.current().is_critical(name)] == critical
