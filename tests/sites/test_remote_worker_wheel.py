"""The wheel on another machine: one command, an app beside it, no project and no settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import enqueue
from jobs.models import Attempt
from tests.support.processes import AS_JSON
from tests.support.queue.actors import stored
from tests.support.remote.remote_site import RemoteSite
from tests.support.sites.foreign_site import ForeignSite, build_wheel

pytestmark = pytest.mark.django_db(transaction=True)

JOB_TYPES = """
import os

from jobs import job_type


@job_type("remote.record", remote=True)
def record(job, log):
    return "in " + os.path.basename(os.getcwd())


@job_type("remote.isolated", remote=True, isolate=True)
def isolated(job, log):
    return "alone"
"""


def test_the_wheel_and_one_command_are_enough(
    remote_site: RemoteSite, tmp_path_factory: pytest.TempPathFactory, log: str
) -> None:
    machine = ForeignSite(
        tmp_path_factory.mktemp("machine"), build_wheel(tmp_path_factory.mktemp("remote-wheel"))
    )
    machine.folder = tmp_path_factory.mktemp("empty")
    machine.write("shed/__init__.py", "")
    machine.write("shed/job_types.py", JOB_TYPES)
    command = str(machine.python.with_name("sprocket-worker"))
    told = machine.run(command, "--help")
    assert "exit codes: 0" in told.stdout
    missing = machine.run(command, "--server", "https://example.org/api", "--app", "nothing", check=False)
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)

    jobs = enqueue("remote.record", log=log), enqueue("remote.isolated", log=log)
    remote_site.serve()
    arguments = ["--server", remote_site.url, "--folder", str(Path(log).parent / "shed"), "--drain"]
    done = machine.run(
        command, *arguments, "--app", "shed", env={"SPROCKET_KEY": remote_site.key(), **AS_JSON}
    )
    assert '"code": "stopped"' in done.stderr
    assert [(attempt.worker_name, attempt.outcome) for attempt in Attempt.objects.all()] == [
        ("far-away", "completed")
    ] * 2
    assert [stored(job.pk).result for job in jobs] == [f"in {machine.folder.name}", "alone"]
