"""manage.py reconcile: make the records agree with what exists."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from jobs.management.command import QueueCommand
from jobs.reconcile import reconcile


class Command(QueueCommand):
    help = (
        "Return jobs of dead workers to the queue, complete jobs whose artifact exists, and queue again completed jobs "
        "whose artifact is missing. Jobs under a live lease are never touched. Workers do this when they start."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="print what would change, change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = reconcile(dry_run=options["dry_run"])
        for finding in findings:
            self.stdout.write(str(finding))
        verb = "would change" if options["dry_run"] else "changed"
        self.stdout.write(f"{len(findings)} record(s) {verb}." if findings else "Everything agrees.")
