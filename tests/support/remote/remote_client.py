"""A worker on another machine, as the server meets it: requests with a key."""

from __future__ import annotations

import hashlib
import io
import json
from itertools import count
from typing import Any

from django.test import Client

from jobs import enqueue, registry, remote, worker_keys
from jobs.models import Worker
from jobs.remote import Announcement

REMOTE = "here.remote"
SECRET = "a secret of the administrators"
_numbers = count(1)


class RemoteClient:
    def __init__(self, worker: Worker, key: str) -> None:
        self.worker, self.key = worker, key
        self._client = Client()

    def send(self, path: str, body: Any = None, **headers: str) -> Any:
        """POST /api/worker/<path>. Text and bytes are sent as they are."""
        data = body if isinstance(body, str | bytes) else json.dumps({} if body is None else body)
        given = {
            "Authorization": f"Bearer {self.key}",
            **{k.replace("_", "-"): v for k, v in headers.items()},
        }
        return self._client.post(f"/api/worker/{path}", data, content_type="application/json", headers=given)

    def heartbeat(self, status: str = "idle", **fields: Any) -> Any:
        return good(self.send("heartbeat", {"status": status, **fields}))

    def ask(self, slots: int = 1, *, key: str = "", **fields: Any) -> Any:
        return self.send(
            "claim", {"slots": slots, **fields}, Idempotency_Key=key or f"claim-{next(_numbers):08}"
        )

    def claim(self, slots: int = 1, *, key: str = "", **fields: Any) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = good(self.ask(slots, key=key, **fields))["jobs"]
        return jobs

    def claim_one(self) -> dict[str, Any]:
        (job,) = self.claim()
        return job

    def report(self, verb: str, job: dict[str, Any], **fields: Any) -> Any:
        """`report("progress", job, percent=5)`; what a verb demands besides the token is added."""
        demanded: dict[str, dict[str, Any]] = {"progress": {"percent": 1}, "fail": {"message": "no"}}
        needed = demanded.get(verb, {})
        return self.send(f"jobs/{job['job_id']}/{verb}", {"token": job["token"], **needed, **fields})

    def get(self, job: dict[str, Any], what: str, **headers: str) -> Any:
        """GET of the order or the source of a job."""
        given = self._of(job, headers)
        return self._client.get(f"/api/worker/jobs/{job['job_id']}/{what}", headers=given)

    def put(self, job: dict[str, Any], name: str, content: bytes, *, sha256: str = "", **more: Any) -> Any:
        """A file of a job. `more` are headers, or what the server makes of them, such as CONTENT_LENGTH."""
        return self._send_bytes("PUT", job, f"files/{name}", content, sha256, more)

    def archive(self, job: dict[str, Any], content: bytes, *, sha256: str = "", **more: Any) -> Any:
        return self._send_bytes("POST", job, "archive", content, sha256, more)

    def _send_bytes(
        self, method: str, job: dict[str, Any], path: str, content: bytes, sha256: str, more: dict[str, Any]
    ) -> Any:
        environment: dict[str, Any] = {name: more.pop(name) for name in list(more) if name.isupper()}
        environment["wsgi.input"] = io.BytesIO(
            content
        )  # Django's own fails where fewer bytes come than announced
        headers = self._of(job, {"X-Content-SHA256": sha256 or hashlib.sha256(content).hexdigest(), **more})
        return self._client.generic(
            method,
            f"/api/worker/jobs/{job['job_id']}/{path}",
            content,
            "application/octet-stream",
            headers=headers,
            **environment,
        )

    def _of(self, job: dict[str, Any], headers: dict[str, str]) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self.key}",
            "X-Lease-Token": str(job["token"]),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }


VERBS = ("progress", "complete", "fail", "release")


def new_remote(
    name: str = "", *, types: list[str] | None = None, concurrency: int = 10, **told: Any
) -> RemoteClient:
    """Registered, with a key, heard of just now."""
    if registry.find(REMOTE) is None:
        raise AssertionError("declare REMOTE first")
    announcement = Announcement(types, concurrency=concurrency, **told)
    worker, _, key = remote.register(name or f"remote-{next(_numbers)}", announcement)
    client = RemoteClient(worker, key)
    client.heartbeat("starting")
    return client


def further_key(client: RemoteClient) -> RemoteClient:
    _, key = worker_keys.issue(client.worker)
    return RemoteClient(client.worker, key)


def enqueue_remote(**payload: Any) -> str:
    return str(enqueue(REMOTE, **payload).pk)


def good(response: Any) -> Any:
    assert response.status_code in (200, 201), (response.status_code, response.content)
    return response.json()


def refused(response: Any, status: int, error: str | None = None) -> str:
    """The detail of a refusal, which looks as every refusal does."""
    assert response.status_code == status, (response.status_code, response.content)
    problem = response.json()
    assert set(problem) == {"error", "detail"}
    assert error in (None, problem["error"]), problem
    assert problem["detail"]
    assert response["Content-Type"].startswith("application/json")
    return str(problem["detail"])
