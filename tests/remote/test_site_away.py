"""While the site is away no remote worker can be heard, and for a while after its return none is judged."""

from __future__ import annotations

import json
import urllib.request
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs import database, enqueue, fleet, recovery
from jobs.lifecycle import recovering
from jobs.models import Job, SitePresence, Status, Worker, WorkerKind, WorkerStatus
from jobs.models.site_presence import LONGEST_EXCUSE, absence, show_presence
from tests.conftest import StartManage
from tests.support.processes import wait_until
from tests.support.queue.actors import claim_one, expire, new_worker, race, status_of
from tests.support.queue.workers import QUICK, wait_for_worker
from tests.support.remote.remote_site import RemoteSite

pytestmark = pytest.mark.django_db(transaction=True)

GRACE = timedelta(seconds=3)


@pytest.fixture(autouse=True)
def _grace(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "RECOVERY_GRACE": GRACE}
    wait_until(lambda: recovering.expiry_counts(of_remote=False))  # the test's server has just been started


def last_seen(ago: timedelta, back: timedelta = timedelta(days=1)) -> None:
    SitePresence.objects.update_or_create(
        pk=1, defaults={"seen_at": database.now_minus(ago), "back_at": database.now_minus(back)}
    )


def away() -> None:
    last_seen(absence() + timedelta(seconds=1))


def back() -> None:
    away()
    show_presence(arriving=True)


def expired_lease(kind: str = WorkerKind.REMOTE) -> str:
    job = enqueue("tests.noop")
    claim_one(new_worker(kind=kind, types=["tests.noop"]))
    expire(job.pk)
    return str(job.pk)


def silent(kind: str = WorkerKind.REMOTE, since: timedelta = timedelta(minutes=6)) -> Worker:
    return new_worker(kind=kind, last_heartbeat=database.now_minus(since))


# -- leases ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("absent", [away, back])
def test_leases_of_remote_workers_do_not_end_while_the_site_is_away_or_just_back(absent: Any) -> None:
    absent()
    far, near = expired_lease(), expired_lease(WorkerKind.LOCAL)
    assert not recovering.expiry_counts()
    assert recovery.end_expired_leases() == [near]
    assert status_of(far) == Status.PROCESSING


def test_after_the_grace_they_do(settings: Any) -> None:
    back()
    far = expired_lease()
    settings.JOBS = {**settings.JOBS, "RECOVERY_GRACE": "1ms"}
    assert recovering.expiry_counts()
    assert recovery.end_expired_leases() == [far]


def test_a_site_that_was_never_seen_grants_nothing() -> None:
    assert recovering.expiry_counts()
    far = expired_lease()
    assert recovery.end_expired_leases() == [far]


def test_a_site_that_stays_away_or_keeps_crashing_holds_no_lease_for_ever() -> None:
    away()
    far = expired_lease()
    Job.objects.update(claim_expires_at=database.now_minus(LONGEST_EXCUSE + timedelta(seconds=1)))
    assert recovery.end_expired_leases() == [far]


# -- silence -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("absent", [away, back])
def test_silent_remote_workers_count_as_online_meanwhile(absent: Any) -> None:
    absent()
    far, near = silent(), silent(WorkerKind.LOCAL)
    assert [worker.pk for worker in fleet.living()] == [far.pk]
    assert recovery.mark_offline() == [near.name]
    ancient = silent(since=LONGEST_EXCUSE + timedelta(minutes=6))
    assert recovery.mark_offline() == [ancient.name]


def test_nobody_is_silent_who_could_not_reach_the_database(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "RECOVERY_GRACE": timedelta(days=365)}
    near = silent(WorkerKind.LOCAL)
    expected = [] if database.is_postgres() else [near.name]  # a file has no start
    assert recovery.mark_offline() == expected


# -- presence ----------------------------------------------------------------------------------------------------------


def presence() -> SitePresence:
    row: SitePresence = SitePresence.objects.get()
    return row


def test_a_restart_beside_other_web_processes_grants_nothing() -> None:
    last_seen(absence() / 2)
    before = presence()
    show_presence(arriving=True)
    assert presence().back_at == before.back_at
    assert presence().seen_at > before.seen_at
    assert recovering.expiry_counts()


def test_a_site_that_restarts_again_and_again_gets_one_grace() -> None:
    back()
    first = presence().back_at
    for _ in range(3):
        show_presence(arriving=True)
    assert presence().back_at == first


def test_processes_that_start_together_are_one_return_of_the_site() -> None:
    race([lambda: show_presence(arriving=True)] * 4)
    assert SitePresence.objects.count() == 1
    away()
    race([lambda: show_presence(arriving=True)] * 4)
    row = presence()
    assert row.seen_at - row.back_at < timedelta(seconds=10)
    assert not recovering.expiry_counts()


def test_a_process_that_is_there_gives_a_sign_now_and_then_and_is_never_back() -> None:
    away()
    before = presence()
    show_presence(arriving=False)  # a long sweep: it was late, not away
    after = presence()
    assert (after.back_at, after.seen_at > before.seen_at) == (before.back_at, True)
    show_presence(arriving=False)
    assert presence().seen_at == after.seen_at, "not at every look"


def test_a_clock_that_was_set_back_neither_hides_an_absence_nor_prolongs_a_grace() -> None:
    last_seen(timedelta(hours=-1), back=timedelta(hours=-1))
    show_presence(arriving=False)
    assert presence().seen_at <= database.read_clock()
    assert recovering.expiry_counts()


# -- from outside ------------------------------------------------------------------------------------------------------


class FarAway:
    """A worker that somebody else wrote: it keeps its job whatever happens to the site."""

    def __init__(self, site: RemoteSite, name: str) -> None:
        self.name, self._url, self._key = name, site.url, site.key(name)
        self.ask("heartbeat", {"status": "starting", "types": ["remote.hold"]})
        enqueue("remote.hold", {"log": "", "gate": ""}, priority=-1)
        (self.job,) = self.ask("claim", {"slots": 1})["jobs"]

    def ask(self, path: str, body: dict[str, Any]) -> Any:
        headers = {
            "Authorization": f"Bearer {self._key}",
            "Content-Type": "application/json",
            "Idempotency-Key": f"claim-of-{self.name}",
        }
        request = urllib.request.Request(f"{self._url}/worker/{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    @property
    def lease(self) -> dict[str, Any]:
        return {"job_id": self.job["job_id"], "token": self.job["token"]}

    @property
    def state(self) -> tuple[str, str]:
        return status_of(self.job["job_id"]), Worker.objects.get(name=self.name).status


def a_sweep_passes() -> None:
    """A lease of a local worker that runs out now is ended by whoever sweeps: nothing holds that up."""
    enqueue("work.use_database")
    job_id = claim_one(new_worker(types=["work.use_database"])).lease.job_id
    Job.objects.filter(pk=job_id).update(claim_expires_at=Now())
    wait_until(lambda: status_of(job_id) != Status.PROCESSING)


def test_a_restart_of_the_site_takes_no_job_from_a_remote_worker(
    remote_site: RemoteSite, start_manage: StartManage
) -> None:
    """A local worker sweeps all the time; of two remote ones, one comes back."""
    env = {
        "JOBS_RECOVERY_GRACE": f"{GRACE.total_seconds():g}s",
        "JOBS_CLAIM_DURATION": "4s",
        "JOBS_OFFLINE_THRESHOLD": "4s",
    }
    wait_for_worker(start_manage("runworker", "--types", "tests.noop", env={**QUICK, **env}))
    remote_site.serve(**env)
    faithful, lost = FarAway(remote_site, "faithful"), FarAway(remote_site, "lost")
    remote_site.kill_server()
    wait_until(lambda: Job.objects.expired().filter(type="remote.hold").count() == 2)
    a_sweep_passes()
    assert faithful.state == lost.state == (Status.PROCESSING, WorkerStatus.BUSY)

    remote_site.serve()
    a_sweep_passes()
    assert faithful.state == lost.state == (Status.PROCESSING, WorkerStatus.BUSY)
    faithful.ask("heartbeat", {"status": "busy", "running": [faithful.lease]})
    answer = faithful.ask(f"jobs/{faithful.job['job_id']}/complete", {"token": faithful.job["token"]})
    assert answer["status"] == Status.COMPLETED
    wait_until(lambda: lost.state == (Status.PENDING, WorkerStatus.OFFLINE))
