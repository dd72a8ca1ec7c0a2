"""manage.py check_invariants: print every broken rule; there should be none, ever."""

from __future__ import annotations

from typing import Any

from jobs.invariants import broken_rules
from jobs.management.command import QueueCommand


class Command(QueueCommand):
    help = (
        "Check every rule that must hold between jobs, attempts, workers, workflows, and what other apps add: "
        "videos and their files. Each violation says whether `manage.py reconcile` repairs it, or what a person has to "
        "do. Exit code 1 if a rule is broken."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        broken = broken_rules(on_disk=True)
        for violation in broken:
            self.stderr.write(f"{violation} ({violation.by_hand or 'manage.py reconcile repairs it'})")
        if broken:
            raise SystemExit(1)
        self.stdout.write("Every rule holds.")
