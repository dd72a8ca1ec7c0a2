"""What deploy/ says can be true here: files that exist, variables that are settings, time enough to drain."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import get_commands

from jobs.conf import find_problems, parse_duration
from project import settings as project_settings
from tests.support import ROOT
from tests.support.sites import deployment
from tests.support.sites.deployment import (
    DEPLOY,
    EXAMPLE,
    UNITS,
    Environment,
    compose,
    instructions,
    manifest,
    manifests,
    options,
    pod_of,
)
from videos.conf import find_problems as find_video_problems

PYTHONS_OWN = {"PATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
DRAIN = parse_duration(EXAMPLE["JOBS_DRAIN_TIMEOUT"])


@pytest.mark.parametrize(("place", "environment"), list(deployment.environments()))
def test_every_variable_is_a_setting_with_a_valid_value(place: str, environment: Environment) -> None:
    assert set(environment) - deployment.known_variables() - PYTHONS_OWN == set()
    jobs = {name.removeprefix("JOBS_"): value for name, value in environment.items() if "JOBS_" in name}
    videos = {name.removeprefix("VIDEOS_"): value for name, value in environment.items() if "VIDEOS_" in name}
    assert find_problems(jobs) + find_video_problems(videos) == []


def test_the_settings_tell_of_every_variable_that_they_read() -> None:
    told = set(re.findall(r"^([A-Z][A-Z0-9_]*) {2,}\S", project_settings.__doc__ or "", re.MULTILINE))
    read = {name for name in deployment.read_by_the_settings() if not name.startswith("JOBS_")}
    assert told == read


def test_kubernetes_and_compose_are_told_the_same() -> None:
    assert manifest("ConfigMap", "sprocket")["data"] == {
        name: value for name, value in EXAMPLE.items() if name != "SECRET_KEY"
    }


# -- the container ---------------------------------------------------------------------------------------------------


def copied() -> list[str]:
    lines = [shlex.split(text) for name, text in instructions() if name == "COPY"]
    return [source for words in lines if not words[0].startswith("--from") for source in words[:-1]]


def test_everything_that_is_copied_exists_and_is_sent_to_the_builder() -> None:
    assert copied()
    assert [source for source in copied() if not (ROOT / source).exists()] == []
    allowed = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert sorted(allowed) == sorted(set(copied()))


def test_stages_are_copied_from_that_were_built() -> None:
    built = [text.split(" AS ")[1] for name, text in instructions() if name == "FROM" and " AS " in text]
    used = [
        match
        for name, text in instructions()
        if name == "COPY"
        for match in re.findall(r"--from=(\S+)", text)
    ]
    assert sorted(built) == sorted(used)


def test_the_container_runs_as_nobody_special_and_every_pod_says_so() -> None:
    names = [name for name, _ in instructions()]
    assert names.index("USER") < names.index("CMD")
    (created,) = [text for name, text in instructions() if "useradd" in text]
    for workload in (one for one in manifests() if one["kind"] in ("Deployment", "Job")):
        context = pod_of(workload)["securityContext"]
        assert context["runAsNonRoot"]
        assert f"--uid {context['runAsUser']} " in created


def test_the_servers_own_requirements_are_those_of_the_tests() -> None:
    ours = re.findall(r"^[\w-]+==.+$", (DEPLOY / "requirements.txt").read_text(), re.MULTILINE)
    assert ours
    tested = [*(ROOT / "requirements.txt").open(), *(ROOT / "requirements-dev.txt").open()]
    assert set(ours) <= {line.strip() for line in tested}


def test_one_service_builds_the_image_for_all() -> None:
    """Each that built one of its own would take the name from the others, and the next `up` would start them anew."""
    services = compose()["services"].values()
    assert [service["image"] for service in services if "build" in service] == ["sprocket"]
    assert sum(service["image"] == "sprocket" for service in services) > 1


# -- commands --------------------------------------------------------------------------------------------------------


def commands() -> list[list[str]]:
    given = [service["command"] for service in compose()["services"].values() if "command" in service]
    given += [
        container["command"]
        for one in manifests()
        if one["kind"] in ("Deployment", "Job")
        for container in pod_of(one)["containers"]
        if "command" in container
    ]
    return given + [shlex.split(options(unit)["ExecStart"]) for unit in UNITS]


def test_every_command_is_one_of_ours() -> None:
    managed = [words[words.index("manage.py") + 1] for words in commands() if "manage.py" in words]
    assert set(managed) == {"migrate", "runworker"}
    assert set(managed) <= set(get_commands())


# -- stopping --------------------------------------------------------------------------------------------------------


def test_whoever_stops_a_worker_waits_until_it_has_drained() -> None:
    waits = {
        "compose": parse_duration(compose()["services"]["worker"]["stop_grace_period"]),
        "kubernetes": timedelta(
            seconds=pod_of(manifest("Deployment", "worker"))["terminationGracePeriodSeconds"]
        ),
        "systemd": parse_duration(options(DEPLOY / "systemd" / "sprocket-worker@.service")["TimeoutStopSec"]),
    }
    assert [name for name, wait in waits.items() if wait < DRAIN + timedelta(seconds=15)] == []


def test_whoever_stops_the_site_waits_until_its_answers_are_sent() -> None:
    (command,) = [text for name, text in instructions() if name == "CMD" and "uvicorn" in text]
    (seconds,) = re.findall(r'"--timeout-graceful-shutdown", "(\d+)"', command)
    pod = pod_of(manifest("Deployment", "web"))
    pause = int(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    unit = options(DEPLOY / "systemd" / "sprocket-web.service")
    assert f"--timeout-graceful-shutdown {seconds}" in unit["ExecStart"]
    assert int(unit["TimeoutStopSec"]) > int(seconds)
    assert pod["terminationGracePeriodSeconds"] > pause + int(seconds)
    assert parse_duration(compose()["services"]["web"]["stop_grace_period"]).seconds > int(seconds)


# -- systemd, Kubernetes ---------------------------------------------------------------------------------------------


def test_probes_ask_under_a_name_that_the_site_answers_to() -> None:
    probes = pod_of(manifest("Deployment", "web"))["containers"][0]
    asked = [probes[name]["httpGet"] for name in ("startupProbe", "readinessProbe")]
    assert [one["path"] for one in asked] == ["/api/health", "/health"]
    hosts = {header["value"] for one in asked for header in one["httpHeaders"] if header["name"] == "Host"}
    assert hosts == {EXAMPLE["ALLOWED_HOSTS"]}
    ingress = manifest("Ingress", "web")["spec"]
    assert {rule["host"] for rule in ingress["rules"]} == hosts


def test_kustomize_applies_every_manifest() -> None:
    (listed,) = [one["resources"] for one in manifests() if one["kind"] == "Kustomization"]
    there = {path.name for path in deployment.KUBERNETES.glob("*.yaml")}
    assert set(listed) == there - {"kustomization.yaml"}


def test_a_filter_of_system_calls_lets_ffmpeg_be_contained_and_kills_nothing() -> None:
    """It killed every look at an upload: Landlock is not among the calls of a system service."""
    filtered = [options(unit) for unit in UNITS if "SystemCallFilter" in options(unit)]
    assert filtered
    landlock = {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"}
    for unit in filtered:
        assert landlock <= set(unit["SystemCallFilter"].split())
        assert unit["SystemCallErrorNumber"] == "EPERM"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "uvicorn"):
        (programs / name).symlink_to("/bin/true")
    for unit in UNITS:
        copy = tmp_path / unit.name.replace("@", "@1")
        copy.write_text(unit.read_text().replace("/srv/sprocket", str(tmp_path)))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
