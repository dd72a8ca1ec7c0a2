"""manage.py enqueue: add jobs from a shell."""

from __future__ import annotations

import argparse
import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobs.conf import parse_duration
from jobs.exceptions import EnqueueRefused
from jobs.lifecycle import enqueue, enqueue_many
from jobs.management.command import QueueCommand
from jobs.priorities import parse_priority


class Command(QueueCommand):
    help = "Add a job (or many) and print its id."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = """\
examples:
  manage.py enqueue demo.count '{"to": 20}'
  manage.py enqueue mail.send '{"to": "a@example.org"}' --priority high --delay 5m --unique-key mail:7
  manage.py enqueue demo.count --count 1000

exit codes: 0 enqueued · 1 refused (the reason is printed, nothing was written) · 2 wrong arguments
"""
        parser.add_argument("type", help="a registered job type")
        parser.add_argument("payload", nargs="?", default="{}", help="a JSON object: the handler's arguments")
        parser.add_argument("--count", type=int, default=1, help="how many jobs with this payload (1)")
        parser.add_argument(
            "--priority",
            help="a label of JOBS['PRIORITIES'] (high, normal, low) or a number; lower runs first",
        )
        parser.add_argument("--delay", help="not before this long from now: 90, 30s, 5m, 2h, 1d")
        parser.add_argument("--unique-key", help="enqueue only if no active job has this key")
        parser.add_argument("--submitter", default="", help="who asks; rate limits count by it")

    def handle(self, *args: Any, **options: Any) -> None:
        terms = {
            "priority": _parsed("--priority", parse_priority, options["priority"]),
            "delay": _parsed("--delay", parse_duration, options["delay"]),
            "submitter": options["submitter"],
        }
        payload = _payload(options["payload"])
        if options["count"] < 1:
            raise CommandError("--count must be at least 1.", returncode=2)
        try:
            if options["count"] > 1:
                if options["unique_key"]:
                    raise CommandError("--unique-key goes with one job, not with --count.", returncode=2)
                ids = enqueue_many(options["type"], [payload] * options["count"], **terms)
                self.stdout.write(f"{len(ids)} jobs, {ids[0]} to {ids[-1]}")
            else:
                job = enqueue(options["type"], payload, unique_key=options["unique_key"], **terms)
                self.stdout.write(job.id if job.created else f"{job.id} (exists already: {job.status})")
        except EnqueueRefused as refusal:
            raise CommandError(str(refusal)) from None


def _payload(text: str) -> dict[str, Any]:
    try:
        payload = json.loads(text)
    except ValueError as error:
        raise CommandError(f"The payload is not JSON: {error}", returncode=2) from None
    if not isinstance(payload, dict):
        raise CommandError('The payload must be a JSON object such as {"to": 20}.', returncode=2)
    return payload


def _parsed(option: str, parse: Any, text: str | None) -> Any:
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise CommandError(f"{option}: {error}", returncode=2) from None
