"""deploy/kubernetes applied as it stands to the cluster that kubectl reaches, with a PostgreSQL beside it."""

from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support import ROOT
from tests.support.sites import kubernetes_metrics
from tests.support.sites.deployment import KUBERNETES, compose, manifest, pod_of

KUBECTL = shutil.which("kubectl")
IMAGE = os.environ.get("SPROCKET_IMAGE", "registry.example.org/sprocket:0.1.0")
HOST = "videos.example.org"
NAMESPACE = "sprocket"
DATABASE_NAMESPACE = "sprocket-test-database"
# While this file is there, a PostgreSQL that was stopped does not come back.
HOLD = "/hold/on"
# What clusters before 1.21 and 1.23 call the same thing, field by field
BEFORE = {"policy/v1": "policy/v1beta1", "autoscaling/v2": "autoscaling/v2beta2"}

Object = dict[str, Any]


class Cluster:
    """The commands of docs/deploy.md and what a test wants to know of their effect."""

    namespace = NAMESPACE

    def __init__(self) -> None:
        self._password = os.urandom(16).hex()
        self._metrics_token = os.urandom(20).hex()

    def start_database(self) -> None:
        image = compose()["services"]["database"]["image"]
        self.kubectl("create", "namespace", DATABASE_NAMESPACE)
        settings = {
            "POSTGRES_USER": "sprocket",
            "POSTGRES_DB": "sprocket",
            "POSTGRES_PASSWORD": self._password,
        }
        ready = ["pg_isready", "--host", "127.0.0.1", "--username", "sprocket"]
        container = {
            "name": "database",
            "image": image,
            "env": [{"name": name, "value": value} for name, value in settings.items()],
            "readinessProbe": {"exec": {"command": ready}, "periodSeconds": 2},
            "volumeMounts": [
                {"name": "data", "mountPath": "/var/lib/postgresql/data"},
                {"name": "hold", "mountPath": "/hold"},
            ],
            "command": [
                "sh",
                "-c",
                f"while [ -e {HOLD} ]; do sleep 1; done; exec docker-entrypoint.sh postgres",
            ],
        }
        labels = {"app": "database"}
        pod = {
            "containers": [container],
            "volumes": [{"name": name, "emptyDir": {}} for name in ("data", "hold")],
            "terminationGracePeriodSeconds": 10,
        }
        workload = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "database"},
            "spec": {
                "serviceName": "database",
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "database"},
            "spec": {"selector": labels, "ports": [{"port": 5432}]},
        }
        self.apply_objects([workload, service], DATABASE_NAMESPACE)
        self.kubectl(
            "rollout", "status", "statefulset/database", "--timeout=300s", namespace=DATABASE_NAMESPACE
        )

    def pause_database(self) -> None:
        stop = f"touch {HOLD} && kill -INT 1"
        self.kubectl("exec", "database-0", "--", "sh", "-c", stop, namespace=DATABASE_NAMESPACE)

    def resume_database(self) -> None:
        self.kubectl("exec", "database-0", "--", "rm", HOLD, namespace=DATABASE_NAMESPACE)

    def create_secret(self) -> None:
        service = self.get("service", "database", namespace=DATABASE_NAMESPACE)
        address = f"postgresql://sprocket:{self._password}@{service['spec']['clusterIP']}/sprocket"
        self.kubectl("create", "namespace", NAMESPACE)
        secrets = {"SECRET_KEY": "x" * 60, "DATABASE_URL": address, "JOBS_METRICS_TOKEN": self._metrics_token}
        literals = [f"--from-literal={name}={value}" for name, value in secrets.items()]
        self.kubectl("create", "secret", "generic", "sprocket", *literals)

    def apply(self, manifests: Path = KUBERNETES) -> None:
        """What `kubectl apply --kustomize` applies, for a small machine and for the names that the cluster knows."""
        objects = list(yaml.safe_load_all(self.kubectl("kustomize", str(manifests), namespace=None)))
        for found in objects:
            found["apiVersion"] = self._known_as(found["apiVersion"])
            for container in found.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
                container["image"] = IMAGE
                container["resources"]["requests"]["cpu"] = "50m"
        self.apply_objects(objects, NAMESPACE)

    def apply_objects(self, objects: list[Object], namespace: str) -> None:
        self.kubectl("apply", "--filename", "-", namespace=namespace, given=yaml.safe_dump_all(objects))

    def _known_as(self, version: str) -> str:
        known = self.kubectl("api-versions", namespace=None).split()
        return version if version in known else BEFORE[version]

    def autoscaler(self) -> str:
        """The kind, in the version that tells of metrics: by its plain name clusters before 1.23 give an older one."""
        group, version = self._known_as("autoscaling/v2").split("/")
        return f"horizontalpodautoscalers.{version}.{group}"

    @contextmanager
    def metrics(self) -> Iterator[None]:
        """While they are there, the autoscaler decides how many workers there are."""
        try:
            kubernetes_metrics.start(self, image=IMAGE, token=self._metrics_token)
            yield
        finally:
            kubernetes_metrics.stop(self)

    def run(self, name: str, *command: str) -> None:
        """A pod beside those of the site, with no more rights than they have."""
        web = pod_of(manifest("Deployment", "web"))
        container = {
            "name": name,
            "image": IMAGE,
            "command": list(command),
            "securityContext": {**web["containers"][0]["securityContext"], "readOnlyRootFilesystem": False},
        }
        pod = {
            "containers": [container],
            "restartPolicy": "Never",
            "securityContext": web["securityContext"],
            "automountServiceAccountToken": False,
        }
        wanted = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod}
        self.apply_objects([wanted], NAMESPACE)
        self.kubectl("wait", "--for=condition=ready", f"pod/{name}", "--timeout=120s")

    def pods(self, part: str) -> list[str]:
        """Of those that nobody has told to end."""
        found = self.get("pods", "--selector", f"part={part}")["items"]
        return [pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def ready(self, part: str) -> list[str]:
        conditions = {
            pod["metadata"]["name"]: {
                one["type"]: one["status"] for one in pod["status"].get("conditions", [])
            }
            for pod in self.get("pods", "--selector", f"part={part}")["items"]
        }
        return [name for name in self.pods(part) if conditions[name].get("Ready") == "True"]

    def restarts(self, pod: str) -> int:
        (container,) = self.get("pod", pod)["status"]["containerStatuses"]
        return int(container["restartCount"])

    def scale(self, part: str, number: int) -> None:
        self.kubectl("scale", f"deployment/{part}", f"--replicas={number}")
        self.kubectl("rollout", "status", f"deployment/{part}", "--timeout=300s")

    def manage(self, *arguments: str) -> str:
        return self.exec(self.ready("web")[0], "python", "manage.py", *arguments)

    def exec(self, pod: str, *command: str, given: bytes | None = None) -> str:
        arguments = ["exec", *(["--stdin"] if given else []), pod, "--", *command]
        done = subprocess.run(
            [str(KUBECTL), "--namespace", NAMESPACE, *arguments],
            input=given,
            capture_output=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr.decode()[-2000:]}"
        return done.stdout.decode()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.manage("jobs", "status", "--json"))
        return found

    def runs(self, job_type: str) -> list[str]:
        """The pods of the workers that have such jobs in hand: a worker that is given no name has its host's."""
        found = self.fetch(
            "SELECT DISTINCT w.name FROM jobs_job j JOIN jobs_worker w ON w.id = j.worker_id"
            f" WHERE j.type = '{job_type}'"
        )
        return [worker for (worker,) in found]

    def attempts(self, job_type: str) -> dict[str, list[tuple[str, str]]]:
        """Of each such job, in their order: in which pod, and how it ended."""
        found: dict[str, list[tuple[str, str]]] = {}
        for job, worker, outcome in self.fetch(
            "SELECT j.id, a.worker_name, a.outcome FROM jobs_job j JOIN jobs_attempt a ON a.job_id = j.id"
            f" WHERE j.type = '{job_type}' ORDER BY a.id"
        ):
            found.setdefault(job, []).append((worker, outcome))
        return found

    def fetch(self, statement: str) -> list[list[str]]:
        form = ("--no-psqlrc", "--csv", "--tuples-only")
        client = ("psql", "--username", "sprocket", "--dbname", "sprocket", *form)
        asked = ("exec", "database-0", "--", *client, "--command", statement)
        return list(csv.reader(self.kubectl(*asked, namespace=DATABASE_NAMESPACE).splitlines()))

    def get(self, *what: str, namespace: str | None = NAMESPACE) -> Object:
        found: Object = json.loads(self.kubectl("get", *what, "--output=json", namespace=namespace))
        return found

    def down(self) -> None:
        for namespace in (NAMESPACE, DATABASE_NAMESPACE):
            self.kubectl("delete", "namespace", namespace, "--ignore-not-found", namespace=None)

    def kubectl(self, *arguments: str, namespace: str | None = NAMESPACE, given: str | None = None) -> str:
        place = ["--namespace", namespace] if namespace else []
        done = subprocess.run(
            [str(KUBECTL), *place, *arguments],
            input=given,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{shlex.join(arguments)}: {done.stderr[-2000:]}"
        return done.stdout
