"""What the templates of the video pages need: times in words, the pictures of a video, where hls.js is."""

from __future__ import annotations

from django import template

from videos import player_script
from videos.models import Step, Video
from videos.pictures import POSTER, STORYBOARD, picture_url
from videos.player_script import PlayerScript

register = template.Library()

STEPS = {
    Step.PROBE: "looking at the file",
    Step.THUMBNAIL: "making pictures",
    Step.TRANSCODE: "encoding",
    Step.MASTER_PLAYLIST: "putting it together",
    Step.FINALIZE: "checking and publishing",
}


@register.filter
def clock(seconds: float | None) -> str:
    """75.4 → 1:15, as players write it."""
    if seconds is None:
        return ""
    hours, rest = divmod(int(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


@register.filter
def size(count: int | None) -> str:
    """In the units that disks are sold in, as upload.js says it."""
    amount, units = float(count or 0), ["bytes", "KB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.1f} {units[0]}".replace(".0 ", " ")


@register.filter
def step_words(step: str) -> str:
    return STEPS.get(Step(step), step) if step in Step.values else step


@register.simple_tag
def poster(video: Video) -> str:
    return picture_url(video, POSTER)


@register.simple_tag
def storyboard(video: Video) -> str:
    return picture_url(video, STORYBOARD)


@register.simple_tag
def hls_script() -> PlayerScript:
    return player_script.find()
