"""Progress bars: one per quality, drawn over themselves, harmless whatever a title holds."""

import os
import re
import shutil
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management.base import OutputWrapper
from django.utils import timezone

from jobs import lifecycle
from jobs.lifecycle import ProgressReport
from jobs.testing import run_due_jobs
from tests.support.queue.actors import new_worker
from tests.support.videos.video_site import accept, clip, two_qualities
from videos import intervening, progress
from videos.models import Video
from videos.progress import Progress
from videos.progress_bars import ProgressBars, harmless

pytestmark = pytest.mark.django_db


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class Screen:
    """What a terminal shows after some lines, moves to the start of an earlier line, and clearings."""

    def __init__(self, text: str) -> None:
        self.lines = [""]
        at = 0
        for move, rows, clearing, new_line, words in re.findall(
            r"(\x1b\[(\d+)F)|(\x1b\[2K|\x1b\[J)|(\n)|([^\x1b\n]+)", text
        ):
            if move:
                at -= int(rows)
                assert at >= 0, "it moved above the screen"
            elif clearing == "\x1b[J":
                self.lines[at:] = [""]
            elif clearing:
                self.lines[at] = ""
            elif new_line:
                at += 1
                self.lines += [""] * (at + 1 - len(self.lines))
            else:
                self.lines[at] = words


def screen(terminal: Terminal) -> list[str]:
    return Screen(terminal.getvalue()).lines[:-1]


def under_way(video: Video, percent: float = 50) -> None:
    """Its probe is done and its chunks are encoded so far."""
    run_due_jobs(limit=1)
    claimed = lifecycle.claim(new_worker(types=["videos.encode"]), 2)
    lifecycle.report_progress([ProgressReport(job.lease, percent) for job in claimed])
    video.refresh_from_db()


def test_each_quality_has_its_bar_and_is_drawn_over_itself(videos_root: Path) -> None:
    terminal = Terminal()
    bars = ProgressBars(OutputWrapper(terminal))
    video = accept(two_qualities(), title="Film")
    bars.draw([video])
    assert screen(terminal) == ["Film: pending, 0 % (probe)"]
    under_way(video)
    bars.draw([video])
    title, *qualities = screen(terminal)
    assert re.fullmatch(r"Film: processing, 4\d % \(transcode(, .*)?\)", title)
    assert [line.partition("0/4")[0] for line in qualities] == [
        f"    480p {'█' * 15}{'░' * 15}  50.0 %  ",
        f"    360p {'█' * 15}{'░' * 15}  50.0 %  ",
    ]
    assert all("0/4" in line for line in qualities)
    intervening.cancel(video)
    bars.draw([Video.objects.get()])
    assert screen(terminal) == ["Film: failed"]
    bars.clear()
    assert screen(terminal) == []


def test_no_more_is_drawn_than_the_terminal_has_lines(
    videos_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((20, 5)))
    video = accept(clip(50), title="A title that is longer than a line")
    terminal = Terminal()
    bars = ProgressBars(OutputWrapper(terminal))
    for _ in range(2):
        bars.draw([video] * 10)
        *titles, rest = screen(terminal)
        assert (titles, "7" in rest) == (["A title that is lon"] * 3, True)


def test_a_title_commands_no_terminal(videos_root: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202eFilm\r\n\u009b1m"
    assert harmless(evil) == "\ufffd]0;owned\ufffd\ufffd[2J\ufffdFilm\ufffd\ufffd\ufffd1m"
    video = accept(clip(50))
    Video.objects.update(title=evil)
    video.refresh_from_db()
    for out in (Terminal(), StringIO()):
        ProgressBars(OutputWrapper(out)).draw([video])
        left = re.sub(r"\x1b\[(2K|J)", "", out.getvalue())
        assert harmless(left.replace("\n", "")) == left.replace("\n", "")


def test_the_time_left_is_told_once_it_can_be_known(
    videos_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video, moment = accept(clip(50), title="Film"), timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: moment)
    terminal = Terminal()
    bars = ProgressBars(OutputWrapper(terminal))
    for percent, seconds, shown in (
        *((3, 4000, "3 % (master playlist)"), (5, 4000, "5 % (master playlist, about 1 h 6 min left)")),
        *((50, 70, "50 % (master playlist, about 1 min 10 s left)"), (99.9, 0, "99 % (master playlist)")),
    ):
        now = Progress(percent, "master_playlist", moment + timedelta(seconds=seconds), ())
        monkeypatch.setattr(progress, "read", lambda transcode, now=now: now)
        bars.draw([video])
        assert screen(terminal) == [f"Film: pending, {shown}"]


def test_where_there_is_no_terminal_each_step_forward_is_a_line(videos_root: Path) -> None:
    out = StringIO()
    bars = ProgressBars(OutputWrapper(out))
    video = accept(clip(50), title="Film")
    for _ in range(3):
        bars.draw([video])
    under_way(video)
    for _ in range(3):
        bars.draw([video])
    assert out.getvalue().splitlines() == [
        "Film: pending, 0 % (probe)",
        "Film: processing, 40 % (transcode)",
    ]
