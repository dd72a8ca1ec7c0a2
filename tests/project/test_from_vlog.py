"""VLog's names: a variable of the environment is pointed out with its successor; docs/from-vlog.md says what exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from django.apps import apps
from django.test import Client

import jobs
import project.settings
from jobs.conf import JobsSettings
from jobs.conf import find_problems as problems_of_jobs
from jobs.live.channels import WORKER_STATUS
from jobs.models import Status, WorkerStatus
from jobs.models.job import DERIVED_STATES
from jobs.wakeup import streams
from project.from_vlog import SUCCESSORS, find_old_names
from tests.conftest import RunManage
from tests.support import ROOT
from videos.channels import COMPLETE, PROGRESS
from videos.conf import VideosSettings
from videos.conf import find_problems as problems_of_videos
from videos.models import QualityStatus, VideoStatus

PAGE = (ROOT / "docs" / "from-vlog.md").read_text()
SETTINGS = {f"JOBS_{f.name.upper()}" for f in fields(JobsSettings)} | {
    f"VIDEOS_{f.name.upper()}" for f in fields(VideosSettings)
}
SETTINGS |= {"REDIS_URL", "REDIS_POOL_SIZE"}


def rows(heading: str) -> list[tuple[str, str]]:
    """The two columns of the tables below a heading, up to the next one."""
    (part,) = re.findall(rf"^{re.escape(heading)}$(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^\| (.*?) \| (.*?) \|$", part, re.MULTILINE)
    return [(there, here) for there, here in lines if there != "there"]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def ours(heading: str) -> Iterator[str]:
    for _, here in rows(heading):
        found = names(here)
        assert found, here
        yield from found


# -- the page ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heading", "known"),
    [
        ("### Jobs", {*Status.values, *DERIVED_STATES}),
        ("### Videos", {*VideoStatus.values}),
        ("### Workers", {*WorkerStatus.values, "disabled"}),
        ("### Qualities", {*QualityStatus.values}),
    ],
)
def test_every_status_is_on_the_page_and_exists(heading: str, known: set[str]) -> None:
    assert set(ours(heading)) == known


def test_every_field_on_the_page_exists() -> None:
    models = {
        model.__name__: model
        for name in ("jobs", "videos")
        for model in apps.get_app_config(name).get_models()
    }
    for name in ours("## Fields"):
        model, _, field = name.partition(".")
        assert model in models, name
        if field:
            models[model]._meta.get_field(field)  # raises FieldDoesNotExist


def test_every_endpoint_on_the_page_exists() -> None:
    document = Client().get("/api/openapi.json").json()
    known = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert "snapshot" in jobs.__all__
    known |= {"GET /health", "jobs.snapshot()"}
    assert set(ours("## Endpoints")) <= known


def test_the_variables_on_the_page_are_those_in_the_code_and_exist() -> None:
    everything = rows("## Environment variables")
    table = [row for row in everything if "VLOG_" in row[0]]
    written = {}
    for there, here in table:
        ((old, old_value), (new, new_value)) = (names(cell)[0].split("=") for cell in (there, here))
        written[old] = new
        assert new_value == old_value + SUCCESSORS[old].unit, old
        key = new if new.startswith(("JOBS_", "VIDEOS_")) else f"JOBS_{new}"
        app, _, setting = key.partition("_")
        assert ({"JOBS": problems_of_jobs, "VIDEOS": problems_of_videos}[app])({setting: new_value}) == [], (
            new
        )
    assert written == {old: successor.name for old, successor in SUCCESSORS.items()}
    assert len(written) == 15, "as many as the documents of VLog name"
    assert {name.partition("=")[0] for _, here in everything for name in names(here)} <= SETTINGS
    assert "REDIS_URL" in (project.settings.__doc__ or "")


def test_the_channels_and_streams_on_the_page_are_those_in_the_code() -> None:
    assert set(ours("## Redis")) == {
        WORKER_STATUS,
        f"{PROGRESS}{{video_id}}",
        f"{COMPLETE}{{video_id}}",
        *(streams.stream(lane) for lane in streams.LANES),
    }


def test_the_page_is_linked() -> None:
    assert "docs/from-vlog.md" in (ROOT / "README.md").read_text()


# -- the warning -------------------------------------------------------------------------------------------------------


def test_a_variable_is_pointed_out_with_the_new_one_and_its_value_in_the_new_form() -> None:
    secret = "hush-hush-hush-hush"
    environment = {
        "VLOG_WORKER_CLAIM_DURATION_MINUTES": "45",
        "VLOG_WORKER_ADMIN_SECRET": secret,
        "VLOG_ALERT_WEBHOOK_TIMEOUT": secret,
        "VLOG_THEME": "dark",
        "PATH": "/bin",
        "NOT_VLOG_REDIS_URL": "",
    }
    found = {str(message.msg).split()[0]: message for message in find_old_names(environment)}
    assert set(found) == {name for name in environment if name.startswith("VLOG_")}
    assert {message.id for message in found.values()} == {"project.W001"}
    hints = {name: str(message.hint) for name, message in found.items()}
    assert "JOBS_CLAIM_DURATION=45m" in hints["VLOG_WORKER_CLAIM_DURATION_MINUTES"]
    assert "JOBS_WORKER_ADMIN_SECRET" in hints["VLOG_WORKER_ADMIN_SECRET"]
    assert "JOBS_ALERT_TIMEOUT" in hints["VLOG_ALERT_WEBHOOK_TIMEOUT"]
    assert secret not in "".join(hints.values())


@pytest.mark.django_db(transaction=True)
def test_a_worker_says_so_once_when_it_starts(run_manage: RunManage) -> None:
    done = run_manage("runworker", "--until-empty", env={"VLOG_MAX_RETRY_ATTEMPTS": "5"})
    assert done.stderr.count("project.W001") == 1
    assert "JOBS_MAX_ATTEMPTS" in done.stderr
    assert "project.W001" not in run_manage("runworker", "--until-empty").stderr


@pytest.mark.parametrize("server", ["wsgi", "asgi"])
def test_the_site_says_so_once_when_a_server_loads_it(server: str) -> None:
    environment: dict[str, Any] = {**os.environ, "SECRET_KEY": "x", "VLOG_REDIS_URL": "redis://:hush@r"}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    done = subprocess.run(
        [sys.executable, "-c", f"import project.{server}"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    (line,) = [line for line in done.stderr.splitlines() if "VLOG_REDIS_URL" in line]
    assert "Set REDIS_URL instead" in line
    assert "hush" not in line
