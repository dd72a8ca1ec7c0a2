"""What has happened on the site, and what is happening: for Backstage.call."""

from __future__ import annotations

import math
import random
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.models import Minute

SHOWS = ("The daily queue", "Leases and tokens", "A history of cron")


def tell() -> dict[str, str]:
    """A day of jobs, some of them failed; three imports that run, others that wait. Ids by a short name."""
    from django.db.models import F

    from jobs import HIGH, enqueue, enqueue_many, type_control, workflow
    from jobs.models import Attempt, Job, Worker, WorkerKind, WorkerStatus

    _minutes()
    mails = [{"to": f"reader{n}@example.{'net' if n % 13 == 0 else 'org'}"} for n in range(1, 90)]
    kinds = ("mail.send", "invoice.print", "report.build")
    enqueue_many("mail.send", mails)
    enqueue_many("invoice.print", [{"number": n} for n in range(2030, 2060)])
    enqueue_many("report.build", [{"month": f"2026-{n:02d}"} for n in range(1, 11)])
    _wait_until_done(kinds)
    for attempt in Attempt.objects.filter(job__type__in=kinds):
        back = timedelta(seconds=random.expovariate(1 / 500))
        took = timedelta(seconds=random.lognormvariate(-1, 1))
        Attempt.objects.filter(pk=attempt.pk).update(
            started_at=F("started_at") - back - took, finished_at=F("finished_at") - back
        )
        Job.objects.filter(pk=attempt.job_id).update(created_at=F("created_at") - back - 2 * took)
    running = [enqueue("podcast.import", show=show, priority=HIGH, seconds=900) for show in SHOWS]
    with workflow("newsletter of November") as flow:
        texts = [flow.add("podcast.import", show=f"Part {n}", seconds=600) for n in (1, 2)]
        proof = flow.add("report.build", month="2026-11", after=texts)
        sent = [flow.add("mail.send", to=f"list{n}@example.org", after=[proof]) for n in range(3)]
        flow.add("search.reindex", shelf="newsletters", after=sent)
    enqueue("report.build", month="2026-11", delay=timedelta(minutes=25))
    enqueue("search.reindex", shelf="all", delay=timedelta(hours=3))
    type_control.pause(["search.reindex"])
    _timetable()
    _breakers()
    failed = Job.objects.filter(type="invoice.print", status="failed").order_by("pk")[0]
    worker = failed.attempts.get().worker_id
    far = Worker.objects.create(name="garage", kind=WorkerKind.REMOTE, status=WorkerStatus.OFFLINE)
    return {
        "running": running[0].pk,
        "planned": proof.pk,
        "failed": failed.pk,
        "worker": worker,
        "far_worker": far.pk,
    }


def _timetable() -> None:
    """Beside the schedules of the code: some of people, of which one is paused and one has been run by hand."""
    from jobs.models import Schedule
    from jobs.timetable import schedules

    made = [
        Schedule(name="monthly report", type="report.build", payload={"month": "2026-11"}, cron="0 6 1 * *"),
        Schedule(
            name="digest", type="mail.send", payload={"to": "list@example.org"}, cron="*/15 8-18 * * MON-FRI"
        ),
    ]
    for row in made:
        row.timezone = "Europe/Berlin"
        schedules.store(row)
    schedules.run_now("monthly report")
    schedules.pause(["digest"])


def _breakers() -> None:
    from jobs.breakers import circuits
    from jobs.breakers.policy import Verdict

    for _ in range(5):
        circuits.settle("printer", Verdict.FAILURE, reason="PaperJam: tray 2 of printer lp0 does not answer")
    circuits.settle("mail", Verdict.FAILURE, reason="SMTPServerDisconnected: Connection unexpectedly closed")


def _minutes() -> None:
    """As the sweep has counted them: quiet at night, busy in the afternoon."""
    from jobs import database
    from jobs.models import Minute

    random.seed(7)
    now = database.read_clock().replace(second=0, microsecond=0)
    past = (now - timedelta(minutes=n) for n in range(2, 24 * 60))
    Minute.objects.bulk_create((_minute(at) for at in past), ignore_conflicts=True)


def _minute(at: datetime) -> Minute:
    from jobs.models import Minute

    busy = 1 + math.sin((at.hour + at.minute / 60 - 9) * math.pi / 12)
    completed = int(random.gauss(12 * busy + 3, 3))
    return Minute(at=at, completed=max(0, completed), failed=int(random.random() < 0.04 * busy))


def _wait_until_done(kinds: Collection[str]) -> None:
    from jobs.models import ACTIVE, Job
    from tests.support.processes import wait_until

    wait_until(lambda: not Job.objects.filter(type__in=kinds, status__in=ACTIVE).exists(), timeout=100)
