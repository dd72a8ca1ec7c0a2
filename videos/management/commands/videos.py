"""manage.py videos: what people do to videos, from a shell."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobs.exceptions import TransitionRefused
from jobs.management.command import QueueCommand
from videos import depot
from videos.exceptions import ActionRefused, VideosError
from videos.models import Video
from videos.reconciling import find_orphans
from videos.verbs import BY_NAME, ON_A_SELECTION, PURGE, Order, situation_of, which

VERBS = [verb.name for verb in ON_A_SELECTION]
HELP_QUALITIES = "encode these again and keep the other published ones as they are (all)"


class Command(QueueCommand):
    help = "Retry, retranscode, cancel, delete, restore or purge videos; find folders that belong to nobody."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = """\
examples:
  manage.py videos retry holiday              run again what has failed; what is finished is kept
  manage.py videos retranscode holiday        queue it for re-encoding; it stays watchable meanwhile
  manage.py videos retranscode holiday --qualities 480p
                                              only 480p; the other published qualities are kept as they are
  manage.py videos delete holiday             hide it and stop its jobs; `restore` brings it back
  manage.py videos purge holiday              remove it and all its files for good
  manage.py videos orphans --remove           remove folders that no record knows

exit codes: 0 done · 1 a video could not be changed (the others were) · 2 wrong arguments
"""
        commands = parser.add_subparsers(dest="action", required=True, metavar="|".join([*VERBS, "orphans"]))
        for verb in VERBS:
            one = commands.add_parser(verb)
            one.add_argument("slugs", nargs="+", metavar="SLUG")
            if verb == "retranscode":
                one.add_argument("--qualities", default="", metavar="720p,360p", help=HELP_QUALITIES)
                one.add_argument("--subtitles", action="store_true", help="recognise the speech again, too")
        orphans = commands.add_parser("orphans", help="folders that belong to nobody")
        orphans.add_argument("--remove", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "orphans":
            self._orphans(remove=options["remove"])
            return
        verb, order, failed = BY_NAME[options["action"]], self._order(options), 0
        for slug in options["slugs"]:
            video = Video.objects.filter(slug=slug).first()
            if video is None:
                raise CommandError(f"There is no video {slug!r}.", returncode=2)
            try:
                if obstacle := "" if verb is PURGE else verb.obstacle(situation_of(video)):
                    raise ActionRefused(f"{slug} cannot be {verb.done}: {obstacle}.", code="not_possible")
                outcome = verb.do(video, order)
            except (VideosError, TransitionRefused) as refusal:
                failed += 1
                self.stderr.write(str(refusal))
            else:
                self.stdout.write(f"{slug}: {verb.done}{which(order, outcome)}")
        if failed:
            raise SystemExit(1)

    def _order(self, options: dict[str, Any]) -> Order:
        names = (name.strip() for name in options.get("qualities", "").split(","))
        return Order("manage.py", tuple(filter(None, names)), options.get("subtitles", False))

    def _orphans(self, *, remove: bool) -> None:
        found = list(find_orphans())
        for orphan in found:
            self.stdout.write(str(orphan))
            if remove:
                depot.remove(orphan.path)
        verb = "removed" if remove else "found; --remove removes them"
        self.stdout.write(f"{len(found)} folder(s) {verb}." if found else "Every folder belongs to a video.")
