"""The lifecycle driven at random: each rule does something to the queue and to its model, and compares the two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jobs import database, fleet, lifecycle, orchestrator, recovery
from jobs.exceptions import EnqueueRefused, LeaseLost, TransitionRefused, WorkerDisabled
from jobs.lifecycle import ClaimedJob, FailureReport, Lease, ProgressReport
from jobs.models import Job, Worker, Workflow
from jobs.reconcile import reconcile
from jobs.worker.context import JobContext
from jobs.workflows import Flow, optional
from tests.support.queue.lifecycle_model import ACTIVE, ENDED, Model, Refused, Twin
from tests.support.queue.quick_look import broken_at_a_glance

PLAIN, LIMITED, MADE = "machine.plain", "machine.limited", "machine.made"
LIMIT = 1
WORKERS = st.integers(0, 2)


def a_job(*statuses: str) -> st.SearchStrategy[Twin]:
    """One of the machine's jobs, in one of these states."""
    return st.runner().flatmap(lambda machine: st.sampled_from(machine.find(*statuses)))


def a_lease(*, live: bool) -> st.SearchStrategy[ClaimedJob]:
    return st.runner().flatmap(lambda machine: st.sampled_from(machine.leases(live=live)))


def if_any(*statuses: str) -> Callable[[Any], Any]:
    return precondition(lambda machine: bool(machine.find(*statuses)))


if_running = precondition(lambda machine: bool(machine.leases(live=True)))
if_stale = precondition(lambda machine: bool(machine.leases(live=False)))


class Lifecycle(RuleBasedStateMachine):
    existing: ClassVar[set[str]] = set()
    """The jobs whose artifact exists."""
    compared: ClassVar[Counter[str]] = Counter()
    """How often a job of each status was found as its twin says."""

    def __init__(self) -> None:
        super().__init__()
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        self.existing.clear()
        self.model = Model()
        self.flow = Flow(Workflow.objects.create(name="machine"))
        self.workers = [
            fleet.register(name=f"machine-{index}", job_types=types, capabilities=[], concurrency=1)
            for index, types in enumerate([[PLAIN, LIMITED, MADE], [PLAIN, LIMITED, MADE], [PLAIN]])
        ]
        self.dead: set[str] = set()
        self.disabled: set[str] = set()
        self.claimed: list[ClaimedJob] = []
        self.tokens: dict[str, int] = {}

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.transaction.__exit__(None, None, None)

    def find(self, *statuses: str) -> list[Twin]:
        return [twin for twin in self.model.jobs.values() if not statuses or twin.status in statuses]

    def leases(self, *, live: bool) -> list[ClaimedJob]:
        return [claimed for claimed in self.claimed if self.is_live(claimed.lease) == live]

    def is_live(self, lease: Lease) -> bool:
        twin = self.model.jobs.get(lease.job_id)
        return twin is not None and twin.is_held_with(lease.token, lease.worker_id)

    # -- enqueue -----------------------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        """Not with an empty queue: two jobs run already, and others depend on them."""
        for type in (MADE, PLAIN, LIMITED, LIMITED):
            self.enqueue_one(type, {})
        made, plain, *_ = self.model.jobs
        self.enqueue_one(MADE, {made: False})
        self.enqueue_one(PLAIN, {made: True, plain: False}, unique_key="a")
        Lifecycle.claim(self, 0, 2)

    @rule(
        type=st.sampled_from([PLAIN, LIMITED, MADE]),
        after=st.runner().flatmap(
            lambda machine: st.dictionaries(
                st.sampled_from(sorted(machine.model.jobs) or ["none"]), st.booleans(), max_size=2
            )
        ),
        priority=st.sampled_from([5, 0]),
        delay=st.sampled_from([None, None, 3600]),
        key=st.sampled_from([None, None, "a", "b"]),
    )
    def enqueue(self, type: str, after: dict[str, bool], **terms: Any) -> None:
        after.pop("none", None)
        self.enqueue_one(type, after, unique_key=terms.pop("key"), **terms)

    def enqueue_one(self, type: str, needs: dict[str, bool], **terms: Any) -> None:
        edges = [optional(id) if is_optional else id for id, is_optional in needs.items()]
        if self.model.fatal(needs):
            with pytest.raises(EnqueueRefused):
                self.flow.add(type, after=edges, **terms)
            return
        key = terms.get("unique_key")
        holder = self.model.holder_of(key)
        job = self.flow.add(type, after=edges, max_attempts=2, **terms)
        assert job.created == (holder is None)
        if holder:
            assert job.id == holder.id
            return
        Job.objects.filter(pk=job.id).update(payload={"id": job.id})
        self.model.add(Twin(job.id, type, max_attempts=2, key=key, needs=needs, due=not terms.get("delay")))

    # -- claim and report --------------------------------------------------------------------------------------------

    @if_any("pending")
    @rule(who=WORKERS, n=st.integers(1, 3))
    def claim(self, who: int, n: int) -> None:
        worker = self.workers[who]
        if worker.pk in self.dead:
            return
        pending = Job.objects.pending().filter(type__in=worker.job_types).in_claim_order()
        bands = set(pending.values_list("type", "priority"))
        if worker.pk in self.disabled:
            if bands:
                with pytest.raises(WorkerDisabled):
                    lifecycle.claim(worker, n)
            return
        if LIMITED in {type for type, _ in bands}:
            self.model.recover(self.model.expired([LIMITED]))
        eligible = [id for id, *band in self.pending_for(worker) if tuple(band) in bands]
        claimed = lifecycle.claim(worker, n)
        ids = [one.lease.job_id for one in claimed]
        assert set(ids) <= set(eligible)
        assert len(ids) <= n
        assert ids[:1] == eligible[:1], "the most urgent job comes first"
        assert [one.priority for one in claimed] == sorted(one.priority for one in claimed)
        for one in claimed:
            twin = self.model.jobs[one.lease.job_id]
            self.model.take(twin, worker.pk)
            assert (one.lease.token, one.attempt) == (twin.token, twin.attempts)
        assert len(self.limited()) <= LIMIT
        self.claimed += claimed

    def pending_for(self, worker: Worker) -> list[tuple[str, str, int]]:
        """What the model thinks may be claimed, in the order of the database's own columns: (id, type, priority)."""
        full = len(self.limited()) >= LIMIT
        types = [type for type in worker.job_types if type != LIMITED or not full]
        ids = [twin.id for twin in self.find("pending") if twin.type in types]
        return list(Job.objects.filter(pk__in=ids).in_claim_order().values_list("id", "type", "priority"))

    def limited(self) -> list[Twin]:
        return [twin for twin in self.find("processing") if twin.type == LIMITED]

    @if_running
    @rule(
        claimed=a_lease(live=True),
        how=st.sampled_from(["complete", "fail", "release", "progress", "give_up", "put_off", "add_child"]),
    )
    def report(self, claimed: ClaimedJob, how: str) -> None:
        lease, twin = claimed.lease, self.model.jobs[claimed.lease.job_id]
        if how == "complete":
            lifecycle.complete(lease)
            self.model.complete(twin)
        elif how == "release":
            assert lifecycle.release([lease]) == set()
            self.model.release(twin)
        elif how == "progress":
            assert lifecycle.report_progress([ProgressReport(lease, 50)]) == []
        elif how == "add_child":
            child = JobContext(claimed, report=lambda report: None).add(PLAIN, max_attempts=2)
            self.model.add(Twin(child.id, PLAIN, max_attempts=2))
        elif how == "put_off":
            failure = FailureReport("RetryLater", "not here", retry_in=timedelta(hours=1), counted=False)
            for _ in range(2):  # its answer got lost
                assert lifecycle.fail(lease, failure) == "waiting"
            self.model.put_off(twin)
        else:
            self.model.fail(twin, permanent=how == "give_up")
            failure = FailureReport("ValueError", "no", permanent=how == "give_up")
            assert lifecycle.fail(lease, failure) == twin.status

    @if_stale
    @rule(claimed=a_lease(live=False))
    def use_a_stale_lease(self, claimed: ClaimedJob) -> None:
        """Every verb refuses it and changes nothing; only a report that was taken before is taken again."""
        lease = claimed.lease
        twin = self.model.jobs.get(lease.job_id)
        current = twin if twin and twin.token == lease.token else None
        assert lifecycle.report_progress([ProgressReport(lease, 50)]) == [lease]
        assert lifecycle.release([lease]) == {lease}
        with pytest.raises(LeaseLost):
            JobContext(claimed, report=lambda report: None).add(PLAIN)
        with nullcontext() if current and current.status == "completed" else pytest.raises(LeaseLost):
            lifecycle.complete(lease)
        with (
            nullcontext()
            if current and current.outcomes[lease.token] == "failed"
            else pytest.raises(LeaseLost)
        ):
            lifecycle.fail(lease, FailureReport("ValueError", "no"))

    # -- people ------------------------------------------------------------------------------------------------------

    @if_any(*ACTIVE)
    @rule(twin=a_job(*ACTIVE))
    def cancel(self, twin: Twin) -> None:
        assert lifecycle.cancel(twin.id) == [twin.id]
        self.model.cancel(twin)

    @if_any("failed", "cancelled")
    @rule(twin=a_job("failed", "cancelled"))
    def retry(self, twin: Twin) -> None:
        self.in_both(twin, self.model.retry, lifecycle.retry)

    @if_any(*ENDED)
    @rule(twin=a_job(*ENDED))
    def discard(self, twin: Twin) -> None:
        self.in_both(twin, self.model.discard, lifecycle.discard)

    def in_both(self, twin: Twin, expected: Callable[[Twin], None], actual: Callable[[str], object]) -> None:
        try:
            expected(twin)
        except Refused:
            with pytest.raises(TransitionRefused):
                actual(twin.id)
        else:
            actual(twin.id)

    # -- time --------------------------------------------------------------------------------------------------------

    @if_any("waiting", "processing")
    @rule(twin=a_job("waiting", "processing"))
    def time_passes(self, twin: Twin) -> None:
        """For one job: it is due, or its lease runs out."""
        past = database.now_minus(timedelta(seconds=1))
        if twin.status == "waiting":
            Job.objects.filter(pk=twin.id).update(run_at=past)
            twin.due = True
        else:
            Job.objects.filter(pk=twin.id).update(claim_expires_at=past)
            twin.expired = True

    @if_any("waiting")
    @rule(twin=a_job("waiting"), everything=st.booleans())
    def promote(self, twin: Twin, everything: bool) -> None:
        if everything:
            orchestrator.promote_due()
            self.model.promote(self.find())
        else:
            lifecycle.run_now(twin.id)
            twin.due = twin.due or not twin.blocked
            self.model.promote([twin])

    # -- workers, and the queue itself -------------------------------------------------------------------------------

    @rule(who=WORKERS, what=st.sampled_from(["heartbeat", "live_or_die", "toggle"]))
    def change_worker(self, who: int, what: str) -> None:
        worker = self.workers[who]
        if what == "toggle":
            assert (fleet.enable if worker.pk in self.disabled else fleet.disable)([worker.pk])
            self.disabled ^= {worker.pk}
        elif worker.pk in self.dead:
            self.workers[who] = fleet.register(
                name=worker.name, job_types=worker.job_types, capabilities=[], concurrency=1
            )
            assert self.workers[who].pk == worker.pk
            self.dead.remove(worker.pk)
            self.model.recover(self.model.leased_by(worker.pk))
        elif what == "heartbeat":
            assert fleet.heartbeat(worker, busy=True) == ("disabled" if worker.pk in self.disabled else "")
            alive = [twin for twin in self.model.leased_by(worker.pk) if not twin.expired]
            assert lifecycle.renew(worker.pk) == len(alive)
        else:
            Worker.objects.filter(pk=worker.pk).update(process_start="another process has this pid")
            self.dead.add(worker.pk)

    @precondition(lambda machine: machine.dead or machine.model.expired())
    @rule()
    def sweep(self) -> None:
        assert recovery.sweep()
        self.model_recovers()
        self.model.promote(self.find())

    @if_any()
    @rule(twin=a_job(), exists=st.booleans())
    def compare_with_artifacts(self, twin: Twin, exists: bool) -> None:
        """An artifact appears or disappears first."""
        (self.existing.add if exists else self.existing.discard)(twin.id)
        reconcile()
        self.model_recovers()
        self.model.reconcile(MADE, self.existing)

    def model_recovers(self) -> None:
        for worker in self.dead:
            self.model.recover(self.model.leased_by(worker))
        self.model.recover(self.model.expired())

    # -- after every step --------------------------------------------------------------------------------------------

    @invariant()
    def the_queue_agrees_with_the_model(self) -> None:
        rows = Job.objects.in_bulk()
        assert rows.keys() == self.model.jobs.keys()
        for id, twin in self.model.jobs.items():
            row = rows[id]
            assert row.lease_token >= self.tokens.get(id, 0), "a token never goes back"
            self.tokens[id] = row.lease_token
            if twin.because and row.cancelled_because in twin.causes:
                twin.because = row.cancelled_because
            is_now = (row.status, row.lease_token, row.attempt_number, row.blocked, row.worker_id)
            should_be = (twin.status, twin.token, twin.attempts, twin.blocked, twin.worker)
            assert is_now == should_be, f"{row}: (status, token, attempts, blocked, worker)"
            assert row.cancelled_because == (twin.because if twin.status == "cancelled" else "")
            self.compared[row.status] += 1

    @invariant()
    def no_rule_is_broken(self) -> None:
        assert broken_at_a_glance() == []
