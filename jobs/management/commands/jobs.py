"""manage.py jobs: look at the queue, retry and cancel, forget workers."""

from __future__ import annotations

import argparse
import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobs import fleet, lifecycle
from jobs.exceptions import TransitionRefused
from jobs.management.command import QueueCommand
from jobs.models import Job, Worker
from jobs.overview import snapshot


class Command(QueueCommand):
    help = "Show how the queue stands, retry failed jobs, cancel jobs, forget workers that are gone."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = """\
examples:
  manage.py jobs status                 a table
  manage.py jobs status --json          the same for scripts
  manage.py jobs retry 01J… 01J…        failed or cancelled jobs start over with all their attempts
  manage.py jobs retry --all-failed     every dead letter
  manage.py jobs cancel 01J…            a running handler is told to stop
  manage.py jobs forget-worker shed     an offline worker leaves the dashboard; attempts keep its name

exit codes: 0 done · 1 a job or worker could not be changed (the others were) · 2 wrong arguments
"""
        commands = parser.add_subparsers(
            dest="action", required=True, metavar="status|retry|cancel|forget-worker"
        )
        status = commands.add_parser(
            "status", help="depth, ready, scheduled, processing, completed, failed; per type"
        )
        status.add_argument("--json", action="store_true", help="machine-readable")
        retry = commands.add_parser("retry", help="start failed or cancelled jobs over")
        retry.add_argument("ids", nargs="*", metavar="ID")
        retry.add_argument("--all-failed", action="store_true", help="every failed job")
        cancel = commands.add_parser("cancel", help="withdraw jobs that have not ended")
        cancel.add_argument("ids", nargs="+", metavar="ID")
        forget = commands.add_parser("forget-worker", help="delete the records of offline workers")
        forget.add_argument("names", nargs="+", metavar="NAME")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['action'].replace('-', '_')}")(options)

    def _status(self, options: dict[str, Any]) -> None:
        state = snapshot()
        if options["json"]:
            self.stdout.write(json.dumps(state, indent=2))
            return
        for key in ("depth", "ready", "scheduled", "processing", "completed", "failed", "workers"):
            self.stdout.write(f"{key:<12}{state[key]:>10,}")
        if state["shutdown"]:
            self.stdout.write("every worker is draining or disabled: nothing new is started")
        elif not state["workers"]:
            self.stdout.write("no worker is running: start one with manage.py runworker")
        for name, breaker in state["breakers"].items():
            self.stdout.write(f"the breaker {name} is {breaker['state']}: {breaker['reason']}")
        for name, counts in state["types"].items():
            listed = "  ".join(f"{status} {count:,}" for status, count in sorted(counts.items()))
            self.stdout.write(f"  {name:<30} {listed}")

    def _retry(self, options: dict[str, Any]) -> None:
        if bool(options["ids"]) == options["all_failed"]:
            raise CommandError("Name the jobs, or say --all-failed.", returncode=2)
        ids = (
            list(Job.objects.failed().values_list("pk", flat=True))
            if options["all_failed"]
            else options["ids"]
        )
        self._change(
            "retried", ids, lambda id: lifecycle.retry(id, actor="manage.py"), "is not failed or cancelled"
        )

    def _cancel(self, options: dict[str, Any]) -> None:
        self._change(
            "cancelled",
            options["ids"],
            lambda id: lifecycle.cancel(id, actor="manage.py"),
            "has ended already",
        )

    def _forget_worker(self, options: dict[str, Any]) -> None:
        refused = 0
        for name in options["names"]:
            worker = Worker.objects.filter(name=name).first()
            if worker is not None and fleet.forget([worker.pk]):
                self.stdout.write(f"forgotten {name}")
            else:
                refused += 1
                reason = "is online, or holds jobs until their leases run out" if worker else "is not known"
                self.stderr.write(f"Worker {name} {reason}.")
        if refused:
            raise SystemExit(1)

    def _change(self, done: str, ids: list[str], verb: Any, refusal: str) -> None:
        refused = 0
        for job_id in ids:
            try:
                changed = verb(job_id)
            except TransitionRefused as error:
                changed, reason = [], str(error)
            else:
                exists = Job.objects.filter(pk=job_id).exists()
                reason = f"Job {job_id} {refusal}." if exists else f"There is no job {job_id}."
            if changed:
                self.stdout.write(
                    f"{done} {job_id}" + (f" and {len(changed) - 1} more" if len(changed) > 1 else "")
                )
            else:
                refused += 1
                self.stderr.write(reason)
        if refused:
            raise SystemExit(1)
