"""manage.py addvideo: make videos of files, and watch them become ready."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobs import fleet
from jobs.management.command import QueueCommand
from videos import found_files, intake, sidecars
from videos.exceptions import UploadRefused
from videos.models import Channel, Video, VideoStatus, Visibility
from videos.progress_bars import ProgressBars, harmless
from videos.site_address import likely_site
from videos.subtitling import Captions

PAUSE = 0.25


class Command(QueueCommand):
    help = "Add video files to a channel, singly or by the folder; the files themselves stay where they are."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = """\
examples:
  manage.py addvideo holiday.mp4                        into the channel "main", titled "holiday"
  manage.py addvideo *.mov --channel travel --wait      several, with progress bars, until all are ready
  manage.py addvideo /srv/films "/srv/talks/**/*.mkv"   folders with all that is below, and patterns
  manage.py addvideo talk.mkv --title "The talk" --slug talk --visibility unlisted
  manage.py addvideo film.mp4 --subtitles german.srt:de --subtitles english.vtt:en

Subtitle files that bear the video's name (film.en.srt, film.pt-BR.vtt or film.srt beside film.mp4) are
added with it; SRT and WebVTT work. A file that the channel has already under the same name is not added
again. In folders, and among what fits a pattern, links, hidden files, subtitles and unfinished downloads
(.part, …) are passed over; any other file that is no video is refused.

exit codes: 0 all were added (with --wait: and are ready) · 1 one was refused or has failed · 2 wrong arguments
"""
        parser.add_argument(
            "paths", nargs="+", metavar="PATH", type=Path, help="a file, a folder or a pattern"
        )
        parser.add_argument(
            "--channel", default="main", help="the channel's slug; made if there is none (main)"
        )
        parser.add_argument("--title", default="", help="for a single file; else the file's name")
        parser.add_argument("--slug", help="for a single file: its address, /v/<slug>/")
        parser.add_argument(
            "--owner", default="", help="the user name of the owner, who may see a private video"
        )
        parser.add_argument("--visibility", choices=Visibility.values, default=Visibility.PUBLIC)
        parser.add_argument("--qualities", default="", metavar="720p,360p", help="only these")
        parser.add_argument(
            "--subtitles",
            action="append",
            default=[],
            metavar="FILE[:LANGUAGE]",
            help="for a single file: its subtitles, instead of those that bear its name; may be repeated. "
            "Without a language, the one in the file's name (film.en.srt), or none",
        )
        parser.add_argument(
            "--no-sidecars", action="store_true", help="leave subtitle files beside the video alone"
        )
        parser.add_argument(
            "--same-content-once",
            action="store_true",
            help="not if the channel has a file with the same bytes",
        )
        parser.add_argument("--wait", action="store_true", help="show progress until everything is ready")
        parser.add_argument(
            "--site",
            default=likely_site(),
            help="for the printed addresses (the first of CSRF_TRUSTED_ORIGINS, or where `make run` serves it)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        paths = self._files(options["paths"])
        if len(paths) > 1 and (options["title"] or options["slug"] or options["subtitles"]):
            raise CommandError("--title, --slug and --subtitles are for a single file.", returncode=2)
        try:
            channel = intake.channel_named(options["channel"])
        except UploadRefused as refusal:
            raise CommandError(str(refusal), returncode=2) from refusal
        videos, refused = [], 0
        for path in paths:
            try:
                video = self._accept(path, channel, options)
            except UploadRefused as refusal:
                refused += 1
                self.stderr.write(f"{harmless(str(path))}: {harmless(str(refusal))}")
                continue
            videos.append(video)
            self.stdout.write(
                f"{harmless(str(path))}: {self._what_became_of(video)}, {self._address(video, options)}"
            )
        failed = self._wait(videos, options) if options["wait"] and videos else 0
        if refused or failed:
            raise SystemExit(1)

    def _files(self, named: list[Path]) -> list[Path]:
        files: dict[Path, None] = {}
        for path in named:
            found = found_files.meant_by(path)
            if not found:
                raise CommandError(
                    f"{harmless(str(path))}: there is no file that could be a video.", returncode=2
                )
            files |= dict.fromkeys(found)
        return list(files)

    def _what_became_of(self, video: Video) -> str:
        if not video.created:
            return "is there already"
        languages = list(video.subtitles.values_list("language", flat=True))
        return f"added with subtitles ({', '.join(languages)})" if languages else "added"

    def _captions(self, path: Path, options: dict[str, Any]) -> list[Captions]:
        """What was asked for must be good; of what lies beside the file, that which is good."""
        if options["subtitles"]:
            return [sidecars.named(text).read() for text in options["subtitles"]]
        found = []
        for sidecar in [] if options["no_sidecars"] else sidecars.beside(path):
            try:
                found.append(sidecar.read())
            except UploadRefused as refusal:
                self.stderr.write(harmless(f"{path}: subtitles are left out: {refusal}"))
        return found

    def _accept(self, path: Path, channel: Channel, options: dict[str, Any]) -> Video:
        return intake.accept(
            path,
            channel=channel,
            title=options["title"],
            slug=options["slug"],
            owner=options["owner"],
            visibility=options["visibility"],
            same_content_once=options["same_content_once"],
            qualities=[name.strip() for name in options["qualities"].split(",") if name.strip()],
            captions=self._captions(path, options),
        )

    def _wait(self, videos: list[Video], options: dict[str, Any]) -> int:
        """Until every video is ready or has failed; returns how many have failed."""
        if not fleet.living():
            self.stderr.write("No worker is running; start one with: manage.py runworker")
        bars = ProgressBars(self.stdout)
        ids = [video.pk for video in videos]
        try:
            while True:
                found = list(Video.objects.filter(pk__in=ids).order_by("created_at"))
                bars.draw(found)
                if all(video.status in (VideoStatus.READY, VideoStatus.FAILED) for video in found):
                    break
                time.sleep(PAUSE)
        except KeyboardInterrupt:
            self.stderr.write("No longer waiting; the videos go on without us.")
            raise SystemExit(130) from None
        bars.clear()
        for video in found:
            self._tell_end(video, options)
        gone = len(ids) - len(found)
        return gone + sum(video.status == VideoStatus.FAILED for video in found)

    def _tell_end(self, video: Video, options: dict[str, Any]) -> None:
        title = harmless(video.title)
        if video.status == VideoStatus.READY:
            self.stdout.write(f"{title} is ready: {self._address(video, options)}")
            if video.warning:
                self.stderr.write(f"{title}: {video.warning}")
        else:
            self.stderr.write(f"{title} has failed: {video.error_message}")

    def _address(self, video: Video, options: dict[str, Any]) -> str:
        return f"{options['site'].rstrip('/')}{video.get_absolute_url()}"
