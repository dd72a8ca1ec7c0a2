"""deploy/compose.yaml brought up as it stands, by podman or docker: its images, commands, variables and volumes."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from tests.support import ROOT
from tests.support.processes import AS_JSON, wait_until
from tests.support.sites.deployment import EXAMPLE, compose

ENGINE = shutil.which("podman") or shutil.which("docker")
PREFIX = "sprocket-test"
HOST = "videos.example.org"


class Site:
    """Containers by the names of their services; further ones of a service have a number."""

    def __init__(self) -> None:
        self._services: Mapping[str, Any] = compose()["services"]
        self._names: list[str] = []
        self._variables = {"DATABASE_PASSWORD": os.urandom(16).hex()}

    def build(self) -> None:
        """SPROCKET_BUILD_OPTIONS: what this machine's builder needs besides, such as `--network host`."""
        given = shlex.split(os.environ.get("SPROCKET_BUILD_OPTIONS", ""))
        form = ["--format", "docker"] if "podman" in str(ENGINE) else []
        self.engine("build", *form, *given, "--file", "deploy/Dockerfile", "--tag", PREFIX, ".")

    def up(self) -> None:
        self.engine("network", "create", PREFIX)
        self.start("database")
        wait_until(lambda: self.succeeds("exec", self.name("database"), *self._health_of("database")))
        self.start("redis")
        self.start("migrate")
        assert self.engine("wait", self.name("migrate")).strip() == "0", self.logs(self.name("migrate"))
        self.start("web")

    def start(self, service: str, number: int = 1) -> str:
        told = self._services[service]
        is_ours = told["image"] == "sprocket"
        environment = {
            **(EXAMPLE | AS_JSON | {"SECRET_KEY": "x" * 60} if is_ours else {}),
            **told.get("environment", {}),
        }
        name = self.name(service, number)
        self._names.append(name)
        self.engine(
            *("run", "--detach", "--name", name, "--network", PREFIX, "--network-alias", service),
            *(["--init"] if told.get("init") else []),
            *(
                word
                for pair in environment.items()
                for word in ("--env", f"{pair[0]}={self._filled(pair[1])}")
            ),
            *(word for volume in told.get("volumes", []) for word in ("--volume", f"{PREFIX}-{volume}")),
            *(["--publish", "127.0.0.1::8000"] if "ports" in told else []),
            PREFIX if is_ours else told["image"],
            *told.get("command", []),
        )
        return name

    def name(self, service: str, number: int = 1) -> str:
        return f"{PREFIX}-{service}-{number}"

    def manage(self, *arguments: str) -> str:
        return self.engine("exec", self.name("web"), "python", "manage.py", *arguments)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.manage("jobs", "status", "--json"))
        return found

    def runs(self, job_type: str) -> list[str]:
        """The containers of the workers that have such jobs in hand."""
        return [
            self._container_of(worker)
            for (worker,) in self.fetch(
                "SELECT DISTINCT w.name FROM jobs_job j JOIN jobs_worker w ON w.id = j.worker_id"
                f" WHERE j.type = '{job_type}'"
            )
        ]

    def attempts(self, job_type: str) -> dict[str, list[tuple[str, str]]]:
        """Of each such job, in their order: in which container, and how it ended."""
        found: dict[str, list[tuple[str, str]]] = {}
        for job, worker, outcome in self.fetch(
            "SELECT j.id, a.worker_name, a.outcome FROM jobs_job j JOIN jobs_attempt a ON a.job_id = j.id"
            f" WHERE j.type = '{job_type}' ORDER BY a.id"
        ):
            found.setdefault(job, []).append((self._container_of(worker), outcome))
        return found

    def fetch(self, statement: str) -> list[list[str]]:
        """By the database's own client, which answers while a manage.py is still being imported."""
        form = ("--no-psqlrc", "--csv", "--tuples-only")
        client = ("psql", "--username", "sprocket", "--dbname", "sprocket", *form)
        answer = self.engine("exec", self.name("database"), *client, "--command", statement)
        return list(csv.reader(answer.splitlines()))

    def address(self) -> str:
        return "http://" + self.engine("port", self.name("web"), "8000").split()[-1]

    def logs(self, name: str) -> str:
        done = subprocess.run([str(ENGINE), "logs", name], capture_output=True, text=True)
        return done.stdout + done.stderr

    def exit_code(self, name: str) -> int:
        return int(self.engine("inspect", "--format", "{{.State.ExitCode}}", name))

    def down(self) -> None:
        self.succeeds("rm", "--force", "--volumes", *self._names)
        self.succeeds("volume", "rm", *(f"{PREFIX}-{name}" for name in compose()["volumes"]))
        self.succeeds("network", "rm", PREFIX)

    def engine(self, *arguments: str) -> str:
        done = subprocess.run([str(ENGINE), *arguments], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, f"{shlex.join(arguments)}: {done.stderr[-8000:]}"
        return done.stdout

    def succeeds(self, *arguments: str) -> bool:
        return subprocess.run([str(ENGINE), *arguments], cwd=ROOT, capture_output=True).returncode == 0

    def _container_of(self, worker: str) -> str:
        """A worker that is given no name has its host's."""
        (name,) = [
            name
            for name in self._names
            if self.engine("inspect", "--format", "{{.Config.Hostname}}", name).strip() == worker
        ]
        return name

    def _health_of(self, service: str) -> list[str]:
        kind, *command = map(str, self._services[service]["healthcheck"]["test"])
        assert kind == "CMD"
        return command

    def _filled(self, value: str) -> str:
        return re.sub(r"\$\{(\w+)[^}]*\}", lambda match: self._variables[match[1]], value)
