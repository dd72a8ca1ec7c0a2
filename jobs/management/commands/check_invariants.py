"""manage.py check_invariants: print every broken rule; there should be none, ever."""

from __future__ import annotations

from typing import Any

from jobs.invariants import broken_rules
from jobs.management.command import QueueCommand


class Command(QueueCommand):
    help = (
        "Check every rule that must hold between jobs, attempts, workers, workflows, and what other apps add: "
        "videos and their files. Exit code 1 if one is broken."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        broken = broken_rules(on_disk=True)
        for violation in broken:
            self.stderr.write(str(violation))
        if broken:
            raise SystemExit(1)
        self.stdout.write("Every rule holds.")
