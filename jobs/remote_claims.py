"""Claims over HTTP: an answer that got lost can be asked for again, and a worker holds no more than its places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from jobs import conf, database, housekeeping, lifecycle
from jobs.exceptions import UnknownWorker, WorkerDisabled, WorkerOutdated
from jobs.lifecycle import Lease
from jobs.lifecycle.bands import find_bands
from jobs.lifecycle.claiming import eligible_types
from jobs.models import Attempt, ClaimAnswer, Job, Outcome, Worker
from jobs.remote import offered
from jobs.versions import is_outdated


def claim(worker: Worker, *, key: str, slots: int, types: Collection[str] | None = None) -> list[Job]:
    """Up to so many jobs. The same key again gets the same leases, as far as they live, and never further ones."""
    settings = conf.current()
    if worker.disabled:
        raise WorkerDisabled(worker.name)
    if is_outdated(worker.version, settings.min_worker_version):
        raise WorkerOutdated(worker.name, worker.version, settings.min_worker_version)
    names = offered(eligible_types(worker, types))
    if not find_bands(names):
        housekeeping.keep_house()
        if not find_bands(names):
            return _read(worker, _answered(worker, key) or [])
    return _read(worker, database.when_unlocked(lambda: _claim_once(worker, key, slots, names)))


def _claim_once(worker: Worker, key: str, slots: int, names: list[str]) -> list[Lease]:
    with database.atomic():
        # Requests of one worker come one after the other, so that none sees a key, or places, as free that are not.
        me = Worker.objects.select_for_update(no_key=True).filter(pk=worker.pk).first()
        if me is None:
            raise UnknownWorker(worker.pk)
        answered = _answered(me, key)
        if answered is not None:
            return answered
        held = _held_by_type(me)
        free = min(slots, me.concurrency - held.total())
        leases = [job.lease for job in lifecycle.claim(me, free, types=names, running=held)]
        if leases:
            given = [[lease.job_id, lease.token] for lease in leases]
            ClaimAnswer.objects.create(worker=me, key=key, leases=given)
    return leases


def _answered(worker: Worker, key: str) -> list[Lease] | None:
    given = ClaimAnswer.objects.filter(worker=worker, key=key).values_list("leases", flat=True).first()
    return None if given is None else [Lease(job_id, token, worker.pk) for job_id, token in given]


def _held_by_type(worker: Worker) -> Counter[str]:
    return Counter(Job.objects.leased().filter(worker_id=worker.pk).values_list("type", flat=True))


def _read(worker: Worker, leases: Collection[Lease]) -> list[Job]:
    """The jobs of those of these leases that live."""
    if not leases:
        return []
    ids = frozenset(lease.job_id for lease in leases)
    jobs = Job.objects.leased().filter(pk__among=ids, worker_id=worker.pk).in_claim_order()
    return [
        job
        for job in jobs.defer("result", "last_error")
        if Lease(job.pk, job.lease_token, worker.pk) in leases
    ]


def has_run(worker: Worker, job_id: str) -> bool:
    """This worker has held a lease of this job, now or before."""
    return bool(Attempt.objects.filter(job_id=job_id, worker_id=worker.pk).exists())


def was_released(lease: Lease) -> bool:
    """By this very lease: a repeated release, whose answer got lost, is answered as the first was."""
    mine = Attempt.objects.filter(job_id=lease.job_id, token=lease.token, worker_id=lease.worker_id)
    return bool(mine.filter(outcome=Outcome.RELEASED).exists())
