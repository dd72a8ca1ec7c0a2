"""manage.py watchfolder: what is put into a folder becomes a video."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import OperationalError, close_old_connections

from jobs.exceptions import EnqueueRefused
from jobs.management.command import QueueCommand
from videos import intake
from videos.exceptions import NotNow, UploadRefused
from videos.models import Video, Visibility
from videos.progress_bars import harmless
from videos.site_address import likely_site
from videos.subtitling import Captions
from videos.watching import Outcome, WatchedFolder


class Command(QueueCommand):
    help = "Watch a folder: each video that is put there is added to a channel."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = """\
examples:
  manage.py watchfolder /srv/inbox                      into the channel "main", until it is told to stop
  manage.py watchfolder /srv/inbox --channel travel --visibility private --owner ann
  manage.py watchfolder /srv/inbox --once               what is there now, then end (for cron)

A file is taken when it has not changed for some seconds (--settle), with the subtitles that bear its
name (film.en.srt). It is then moved to the folder "added" inside; what is no video to "refused", with a
text file that says why. Links, hidden files and unfinished downloads (.part, …) are left alone.

exit codes: 0 told to stop · 1 not everything was added (with --once), or the folder is gone · 2 wrong arguments
"""
        parser.add_argument("folder", type=Path)
        parser.add_argument(
            "--channel", default="main", help="the channel's slug; made if there is none (main)"
        )
        parser.add_argument(
            "--owner", default="", help="the user name of the owner, who may see a private video"
        )
        parser.add_argument("--visibility", choices=Visibility.values, default=Visibility.PUBLIC)
        parser.add_argument(
            "--settle",
            type=float,
            default=5,
            metavar="SECONDS",
            help="how long a file must stay as it is (5)",
        )
        parser.add_argument(
            "--interval", type=float, default=2, metavar="SECONDS", help="the pause between two looks (2)"
        )
        parser.add_argument("--once", action="store_true", help="handle what is there, then end")
        parser.add_argument(
            "--site",
            default=likely_site(),
            help="for the printed addresses (the first of CSRF_TRUSTED_ORIGINS, or where `make run` serves it)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["folder"]
        if not folder.is_dir() or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise CommandError(f"{folder} is not a folder that we may read and write.", returncode=2)
        if options["settle"] < 0 or options["interval"] <= 0:
            raise CommandError("--settle must not be below 0, --interval must be above it.", returncode=2)
        try:
            channel = intake.channel_named(options["channel"])
        except UploadRefused as refusal:
            raise CommandError(str(refusal), returncode=2) from refusal

        def add(path: Path, captions: Sequence[Captions]) -> Video:
            try:
                return intake.accept(
                    path,
                    channel=channel,
                    owner=options["owner"],
                    visibility=options["visibility"],
                    captions=captions,
                )
            except EnqueueRefused as error:
                raise NotNow(str(error), code="queue_refused") from error
            except OperationalError as error:
                close_old_connections()
                raise NotNow(f"The database cannot be reached: {error}", code="database_away") from error

        watched = WatchedFolder(folder, add, settle=options["settle"])
        self.site: str = options["site"].rstrip("/")
        before = signal.signal(signal.SIGTERM, _end)
        try:
            left_out = self._watch(watched, once=options["once"], interval=options["interval"])
        except KeyboardInterrupt:
            return
        except OSError as error:
            raise CommandError(f"{folder} can no longer be watched: {error}") from error
        finally:
            signal.signal(signal.SIGTERM, before)
        if left_out:
            raise SystemExit(1)

    def _watch(self, watched: WatchedFolder, *, once: bool, interval: float) -> int:
        """Until told to stop; with `once`, how many of the files that were there have become no video."""
        left_out = 0
        if not once:
            self.stdout.write(f"Watching {watched.folder}; Ctrl-C ends it.")
        while True:
            for outcome in watched.look(time.monotonic()):
                self._tell(outcome)
                left_out += outcome.video is None
            if once and watched.is_quiet:
                return left_out
            time.sleep(interval)

    def _tell(self, outcome: Outcome) -> None:
        name, reason = harmless(outcome.path.name), harmless(outcome.reason)
        if outcome.video is not None:
            word = "added" if outcome.video.created else "is there already"
            self.stdout.write(f"{name}: {word}, {self.site}{outcome.video.get_absolute_url()}")
            if reason:
                self.stderr.write(f"{name}: {reason}")
        elif outcome.later:
            self.stderr.write(f"{name}: not now: {reason}")
        else:
            self.stderr.write(f"{name}: refused: {reason}")


def _end(signal_number: int, frame: FrameType | None) -> None:
    """As an exception: what is being copied is cleared away."""
    sys.exit(0)
