"""Every status of every row, set by hand: what check_invariants names, reconcile repairs, and then both are content."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, models, transaction
from django.db.models.functions import Now
from pytest_django import Settings

from jobs import enqueue, lifecycle, workflow
from jobs.database import now_plus
from jobs.invariants import ON_DISK, broken_rules
from jobs.lifecycle import FailureReport
from jobs.models import Attempt, Breaker, Job, Status, Worker
from jobs.reconcile import reconcile
from jobs.testing import run_due_jobs
from tests.support.queue.actors import claim_one, new_worker
from tests.support.queue.constraints import undone
from tests.support.queue.quick_look import broken_at_a_glance
from tests.support.videos.video_site import accept, clip
from videos import intervening, pipeline
from videos.models import QualityProgress, Transcode, Video

pytestmark = pytest.mark.django_db

NAMES = {"status", "outcome", "state"}


def rows_with_a_status() -> dict[type[models.Model], Any]:
    """Every model of both apps that has one, with the field."""
    every = chain(apps.get_app_config("jobs").get_models(), apps.get_app_config("videos").get_models())
    real = (model for model in every if not model._meta.proxy)
    return {model: field for model in real for field in model._meta.fields if field.name in NAMES}


@pytest.fixture
def site(videos_root: Path, settings: Settings) -> Worker:
    """Plain jobs in each status, and a video in each, with versions in each. The worker has a real lease on a job of
    either."""
    settings.VIDEOS = {**settings.VIDEOS, "SEGMENTS_PER_CHUNK": 1}
    replaced = accept(clip(50), slug="replaced")
    run_due_jobs()
    intervening.retranscode(replaced)
    run_due_jobs()
    accept(clip(50), slug="cancelled")
    intervening.cancel(Video.objects.get(slug="cancelled"))
    planned = accept(clip(50), slug="planned")
    run_due_jobs(limit=2)
    assert planned.transcodes.get().status == "pending"
    worker = new_worker()
    accept(clip(50), slug="processing")
    lifecycle.claim(new_worker(types=["videos.probe"]), 1)
    Job.objects.filter(status=Status.PENDING).update(priority=99)
    accept(clip(50), slug="failed")
    lifecycle.fail(
        claim_one(new_worker(types=["videos.probe"])).lease, FailureReport("X", "no", permanent=True)
    )
    plain_jobs(worker)
    Breaker.objects.create(name="payments", state="closed")
    assert broken_rules(on_disk=True) == []
    assert reconcile(thorough=True) == []
    return worker


def plain_jobs(worker: Worker) -> None:
    for end in ("completed", "failed", "lost", "released", "running"):
        enqueue("tests.noop", priority=-1, max_attempts=1)
        lease = claim_one(worker).lease
        if end == "completed":
            lifecycle.complete(lease)
        elif end == "failed":
            lifecycle.fail(lease, FailureReport("ValueError", "no", permanent=True))
        elif end == "lost":
            lifecycle.recover_lost(worker.pk, "it died")
        elif end == "released":
            lifecycle.release([lease])
            Job.objects.filter(pk=lease.job_id).update(priority=99)
    enqueue("tests.noop", delay=3600)
    lifecycle.cancel(enqueue("tests.noop").id)
    with workflow("w") as flow:
        first = flow.add("tests.noop", delay=3600)
        flow.add("tests.noop", after=[first])


def kind_of(row: Any) -> tuple[Any, ...]:
    """Rows of one kind are alike; one of them is enough."""
    if isinstance(row, Job):
        version = Transcode.objects.filter(workflow_id=row.workflow_id or "-").first()
        critical = pipeline.is_critical(row.type)
        return (row.status, row.blocked, version and (version.status, critical), row.lease_token > 1)
    if isinstance(row, Attempt):
        return (row.outcome, row.job.status, row.job.workflow_id is None)
    if isinstance(row, QualityProgress):
        return (row.status, row.transcode.status)
    if isinstance(row, Worker):
        return ()
    return (row.pk,)


def demanded(row: Any, value: str, worker: Worker) -> dict[str, Any]:
    """What the tables demand of a row with this status."""
    if isinstance(row, Job):
        runs = value == "processing"
        return {
            "worker": worker if runs else None,
            "claimed_at": Now(),
            "claim_expires_at": now_plus(timedelta(hours=1)) if runs else None,
            "lease_token": max(1, row.lease_token),
            "completed_at": Now() if value == "completed" else None,
            "blocked": False,
        }
    if isinstance(row, Attempt):
        return {"finished_at": None if value == "running" else Now()}
    if isinstance(row, QualityProgress):
        return {"completed_at": Now() if value == "completed" else None}
    if isinstance(row, Breaker):
        return {"retry_at": Now() if value == "open" else None}
    return {}


def changes_by_hand(model: type[models.Model]) -> Iterator[tuple[Any, str, str]]:
    """A row of each kind, the name of its status, and each value that it could have."""
    field = rows_with_a_status()[model]
    some = {kind_of(row): row for row in model._default_manager.order_by("-pk")}
    for row in some.values():
        for value, _ in field.flatchoices:
            if value != getattr(row, field.name):
                yield row, field.name, value


def change(row: Any, name: str, value: str, worker: Worker) -> bool:
    """By itself, or with what the tables demand. False: they refuse both."""
    for more in ({}, demanded(row, value, worker)):
        try:
            with transaction.atomic():
                type(row)._default_manager.filter(pk=row.pk).update(**{name: value, **more})
        except IntegrityError:
            continue
        return True
    return False


def broken() -> list[str]:
    """What check_invariants names, asked in fewer statements."""
    on_disk = [f"{text}: {subject}" for text, check in ON_DISK.items() for subject in check()]
    return [*broken_at_a_glance(), *on_disk]


def test_every_kind_of_row_is_among_them() -> None:
    assert {Job, Attempt, Worker, Breaker, Video, Transcode, QualityProgress} <= {*rows_with_a_status()}


MODELS = sorted(rows_with_a_status(), key=lambda model: model.__name__)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_reconcile_and_check_invariants_never_disagree(site: Worker, model: type[models.Model]) -> None:
    wrong: list[str] = []
    tried = 0
    leases = list(Job.objects.filter(status="processing").values("pk", "lease_token", "worker_id"))
    for row, name, value in changes_by_hand(model):
        what = f"{row} → {value}"
        with undone():
            if not change(row, name, value, site):
                continue
            tried += 1
            named = broken()
            found = reconcile(thorough=True)
            if named and not found:
                wrong.append(f"{what}: {named} named, nothing repaired")
            if left := broken() or [str(one) for one in reconcile(dry_run=True) if not tried % 5]:
                wrong.append(f"{what}: {named} → {[*map(str, found)]}, but left: {left}")
            if not isinstance(row, Job):
                kept = Job.objects.filter(status="processing").values("pk", "lease_token", "worker_id")
                if list(kept) != leases:
                    wrong.append(f"{what}: a live lease was touched")
    assert not wrong, "\n".join(wrong)
    assert tried, "no row has a status that can be changed"
