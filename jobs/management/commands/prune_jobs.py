"""manage.py prune_jobs: delete what is older than RETENTION."""

from __future__ import annotations

import sys
from typing import Any

from jobs import statistics
from jobs.management.command import QueueCommand
from jobs.recovery import prune_jobs, prune_the_rest


class Command(QueueCommand):
    help = "Delete completed and cancelled jobs older than RETENTION. Failed jobs stay. Workers do it every minute too."

    def handle(self, *args: Any, **options: Any) -> None:
        statistics.count_minutes()  # where no worker has, what is deleted now would be missing in the totals
        pruned = prune_jobs(limit=sys.maxsize)
        prune_the_rest()
        self.stdout.write(f"{pruned} job(s) deleted.")
