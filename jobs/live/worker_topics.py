"""The topic of workers. The values of a worker are called `worker.<id>.status` and so on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from django.db.models import Count

from jobs.live.offers import Offer, ids_among, offer
from jobs.live.topic import State, Topic
from jobs.models import Job, Worker

ALL = "all"
MOST_WORKERS = 500
"""Workers that one stream follows; of a larger fleet those with the first names."""


def _followed_workers(values: Sequence[str]) -> list[Topic]:
    if ALL in values:
        return [Topic("workers:all", partial(_read_workers, None))]
    wanted = ids_among(values, most=MOST_WORKERS)
    return [Topic(f"workers:{','.join(wanted)}", partial(_read_workers, frozenset(wanted)))]


offer(
    Offer(
        "worker",
        ("jobs.view_worker", "jobs.change_worker"),
        _followed_workers,
        f"the id of a worker, up to {MOST_WORKERS} of them; or `all`",
    )
)


def _read_workers(ids: frozenset[str] | None) -> State:
    workers = Worker.objects.all() if ids is None else Worker.objects.filter(pk__in=ids)
    rows = list(workers.order_by("name")[:MOST_WORKERS])
    held = Job.objects.leased().filter(worker__in=rows).order_by().values_list("worker")
    running = dict(held.annotate(Count("pk")))
    return {
        f"worker.{row.pk}.{key}": value
        for row in rows
        for key, value in {
            "name": row.name,
            "status": row.state,
            "draining": row.draining,
            "running": running.get(row.pk, 0),
            "concurrency": row.concurrency,
            "last_heartbeat": row.last_heartbeat,
        }.items()
    }
