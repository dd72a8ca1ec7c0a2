"""manage.py reconcile: make the records agree with what exists."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from jobs.invariants import broken_rules
from jobs.management.command import QueueCommand
from jobs.reconcile import reconcile


class Command(QueueCommand):
    help = (
        "Return jobs of dead workers to the queue, complete jobs whose artifact exists, and queue again completed jobs "
        "whose artifact is missing; put right what contradicts itself, such as a status that was changed by hand. Jobs "
        "under a live lease are never touched. Workers do this when they start, but for the records of single jobs. "
        "Exit code 1 if a rule of check_invariants is broken that a person has to repair."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="print what would change, change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = reconcile(dry_run=options["dry_run"], thorough=True)
        for finding in findings:
            self.stdout.write(str(finding))
        verb = "would change" if options["dry_run"] else "changed"
        left = [one for one in broken_rules(on_disk=True) if one.by_hand or not options["dry_run"]]
        for violation in left:
            remedy = violation.by_hand or "it changed meanwhile, or a job of it runs: try again later"
            self.stderr.write(f"not repaired: {violation} ({remedy})")
        if findings or not left:
            self.stdout.write(f"{len(findings)} record(s) {verb}." if findings else "Everything agrees.")
        if left:
            raise SystemExit(1)
