"""A priority is a label of JOBS["PRIORITIES"] or a whole number, wherever one is given."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import Client
from pytest_django import Settings

from jobs import JobContext, conf, enqueue, enqueue_many, lifecycle, snapshot, workflow
from jobs.exceptions import BadValue
from jobs.metrics.depth import read_depth
from jobs.models import Job, Schedule
from jobs.priorities import parse_priority, priority_label
from jobs.wakeup.streams import lane_of
from tests.conftest import Declare, RunManage
from tests.support.queue.actors import claim_one, claimed_ids, new_worker, stored

pytestmark = pytest.mark.django_db

OWN = {"urgent": -10, "high": 100, "normal": 200, "low": 300}


@pytest.fixture
def own_labels(settings: Settings) -> None:
    settings.JOBS = {"PRIORITIES": OWN}


@pytest.mark.parametrize(
    ("given", "number"),
    [("high", 0), ("Normal", 5), (" low ", 10), (7, 7), ("-3", -3), ("+3", 3), (2**31 - 1, 2**31 - 1)],
)
def test_a_label_or_a_number_is_understood(given: Any, number: int) -> None:
    assert parse_priority(given) == number
    assert stored(enqueue("tests.noop", priority=given)).priority == number


@pytest.mark.parametrize("nonsense", ["", "urgent", "1.5", 1.5, True, None, 2**31, "9" * 10, [0]])
def test_anything_else_is_not(nonsense: Any) -> None:
    with pytest.raises(BadValue) as refusal:
        parse_priority(nonsense)
    assert refusal.value.code == "bad_priority"


def test_the_sites_own_labels_count_everywhere_in_python(own_labels: None, declare: Declare) -> None:
    declare("here.urgent", priority="urgent")
    kinds = {
        "of the type": enqueue("here.urgent").id,
        "of no one": enqueue("tests.noop").id,
        "given": enqueue("here.urgent", priority="low").id,
        "one of many": enqueue_many("tests.noop", [{}], priority="high")[0],
    }
    with workflow("w") as flow:
        kinds["in a workflow"] = flow.add("tests.noop", priority="low").id
    changed = enqueue("tests.noop").id
    lifecycle.change_priority(changed, "urgent")
    numbers = {name: stored(job_id).priority for name, job_id in kinds.items()}
    assert numbers == {
        "of the type": -10,
        "of no one": 200,
        "given": 300,
        "one of many": 100,
        "in a workflow": 300,
    }
    assert stored(changed).priority == -10
    assert (priority_label(-10), priority_label(0)) == ("urgent", "0")
    assert snapshot()["priorities"] == {"high": 1, "low": 2, "normal": 1, "urgent": 2}
    assert claimed_ids(new_worker(job_types=["here.urgent", "tests.noop"]), 3) == [
        kinds["of the type"],
        changed,
        kinds["one of many"],
    ]


def test_a_child_may_be_given_a_label(own_labels: None) -> None:
    enqueue("tests.noop", priority="high")
    context = JobContext(claim_one(), report=lambda report: None)
    assert stored(context.add("tests.noop")).priority == 100
    assert stored(context.add("tests.noop", priority="low")).priority == 300


def test_metrics_and_wake_ups_follow_the_numbers(own_labels: None) -> None:
    for priority in ("urgent", 0, "high", "normal", "low", 9999):
        enqueue("tests.noop", priority=priority)
    (_, samples), _ = read_depth()
    pending = {
        sample.labels["priority"]: sample.value
        for sample in samples
        if sample.labels["type"] == "tests.noop" and sample.labels["status"] == "pending"
    }
    assert pending == {"urgent": 2, "high": 1, "normal": 1, "low": 2}
    assert [lane_of(priority) for priority in (-10, 199, 200, 299, 300, None)] == [
        *("high", "high", "normal", "normal", "low", "normal")
    ]


@pytest.mark.django_db(transaction=True)
def test_the_command_takes_labels_of_the_environment(run_manage: RunManage) -> None:
    env = {"JOBS_PRIORITIES": "high=0, normal=5, low=10, bulk=50"}
    run_manage("enqueue", "tests.noop", "--priority=bulk", env=env)
    assert Job.objects.get().priority == 50
    refused = run_manage("enqueue", "tests.noop", "--priority=bulk", check=False)
    assert refused.returncode == 2
    refused = run_manage(
        "enqueue", "tests.noop", env={"JOBS_PRIORITIES": "high=5,normal=0,low=10"}, check=False
    )
    assert "PRIORITIES" in refused.stderr
    assert refused.returncode != 0


def test_the_api_finds_jobs_by_label_or_number(own_labels: None, admin_client: Client) -> None:
    urgent, odd = enqueue("tests.noop", priority="urgent"), enqueue("tests.noop", priority=7)

    def found(priority: str) -> list[str]:
        answer = admin_client.get("/api/jobs", {"priority": priority})
        return [row["id"] for row in answer.json()["jobs"]]

    assert (found("urgent"), found("-10"), found("7")) == ([urgent.pk], [urgent.pk], [odd.pk])
    refusal = admin_client.get("/api/jobs", {"priority": "soon"})
    assert (refusal.status_code, refusal.json()["error"]) == (422, "invalid")


def test_the_admin_takes_the_sites_own_labels(own_labels: None, admin_client: Client) -> None:
    job = enqueue("tests.noop")
    page = "/admin/jobs/job/"
    asked = {"action": "change_priority", "_selected_action": job.pk}
    shown = admin_client.post(page, asked).content.decode()
    assert '<option value="urgent">' in shown
    admin_client.post(page, asked | {"confirmed": "yes", "priority": "urgent"})
    assert stored(job).priority == -10
    assert job.pk in admin_client.get(page, {"priority": "urgent"}).content.decode()
    admin_client.post(
        "/admin/jobs/schedule/add/",
        {
            "name": "nightly",
            "type": "tests.noop",
            "payload": "{}",
            "cron": "0 3 * * *",
            "timezone": "UTC",
            "catch_up": "once",
            "priority": "low",
        },
    )
    assert Schedule.objects.get().priority == 300


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("high", "not_a_whole_number"),
        (["high"], "not_labels"),
        ({"high": 0, "low": 10}, "label_missing"),
        ({"high": 5, "normal": 0, "low": 10}, "labels_out_of_order"),
        ({"high": 0, "normal": 5, "low": 10, "urgent": 0}, "same_number"),
        ({"high": 0, "normal": 5, "low": 10, "7": 7}, "bad_label"),
        ({"high": 0, "normal": 5, "low": 2**31}, "above_maximum"),
        ({"high": 0, "normal": 5, "low": "ten"}, "not_a_whole_number"),
    ],
)
def test_labels_that_make_no_sense_are_refused(value: Any, code: str) -> None:
    (problem,) = conf.find_problems({"PRIORITIES": value})
    assert (problem.code, problem.setting) == (code, "PRIORITIES")


def test_a_type_whose_label_the_site_does_not_have_is_pointed_out(declare: Declare) -> None:
    declare("here.urgent", priority="urgent")
    assert [message.id for message in run_checks(tags=["jobs"])] == ["jobs.E004"]
