"""Files on their way between the server and a running job, watched by the job's thread, which can be stopped."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import httpx

from jobs.exceptions import LeaseLost, WorkerDismissed
from jobs.worker.context import JobContext
from jobs.worker.over_http.connection import (
    Access,
    Refused,
    Rest,
    Unreachable,
    as_unreachable,
    make_client,
    read_answer,
)
from jobs.worker.patience import Backoff

T = TypeVar("T")

KEEP_ALIVE_SECONDS = 5.0
"""How often a job in a long transfer says that it is alive."""
_LOOK_SECONDS = 0.1
_SOURCE = httpx.Timeout(connect=5, read=15, write=15, pool=5)
_FILE = httpx.Timeout(connect=5, read=120, write=30, pool=5)
"""After the last byte the server still looks at what it has got."""


@functools.cache
def _client() -> httpx.Client:
    return make_client(_SOURCE, connections=300)


class Cancelled(Exception):
    """Inside of a transfer whose job has been stopped."""


class JobRequests:
    """What may be asked about one running job; every request carries its lease."""

    def __init__(self, access: Access, job: JobContext) -> None:
        self._access = access
        self._job = job
        self._rest = Rest()
        self._headers = {**access.headers, "X-Lease-Token": str(job.lease.token)}

    def get(self, path: str) -> dict[str, object]:
        with self._asking():
            return read_answer(_client().get(self._url(path), headers=self._headers), self._rest)

    @contextmanager
    def stream(self, path: str, **headers: str) -> Iterator[httpx.Response]:
        """A response whose body has not been read yet; raises what any other status means."""
        given = {**self._headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        with self._asking(), _client().stream("GET", self._url(path), headers=given) as response:
            if response.status_code not in (200, 206, 416):
                response.read()
                read_answer(response, self._rest)
                raise Unreachable(f"HTTP {response.status_code}")
            yield response

    def put(self, path: str, content: Iterator[bytes], **headers: str) -> dict[str, object]:
        given = {**self._headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        with self._asking():
            response = _client().put(self._url(path), content=content, headers=given, timeout=_FILE)
            return read_answer(response, self._rest)

    def post(self, path: str, body: dict[str, object]) -> dict[str, object]:
        with self._asking():
            response = _client().post(self._url(path), json=body, headers=self._headers, timeout=_FILE)
            return read_answer(response, self._rest)

    def _url(self, path: str) -> str:
        return f"{self._access.server}/worker/jobs/{self._job.id}/{path}"

    @contextmanager
    def _asking(self) -> Iterator[None]:
        self._rest.check()
        try:
            yield
        except httpx.HTTPError as error:
            raise as_unreachable(error) from None
        except WorkerDismissed as dismissal:
            raise Unreachable(str(dismissal)) from None  # the pulse hears it too, and stops everything
        except Refused as refusal:
            if refusal.code in ("lease_lost", "not_found"):
                raise LeaseLost(self._job.id) from None
            if refusal.status in (400, 403):  # cut on the way; disabled, of which the pulse hears more
                raise Unreachable(refusal.detail) from None
            raise


def persist(cancelled: threading.Event, attempt: Callable[[], T], on_trouble: Callable[[str], None]) -> T:
    """Until it succeeds, or means something; the job's lease is the limit, and whoever watches it cancels."""
    patience = Backoff(0.2, 10.0)
    while True:
        if cancelled.is_set():
            raise Cancelled
        try:
            return attempt()
        except Unreachable as problem:
            if cancelled.is_set():
                raise Cancelled from None
            on_trouble(str(problem))
            patience.wait(cancelled)


def watch(job: JobContext, work: Callable[[threading.Event], T], *, step: str) -> T:
    """Do the work in a thread of its own. The job's thread says that the job lives, and leaves as soon as it must stop:
    a request that hangs can neither be interrupted nor may it hold the job."""
    cancelled, done = threading.Event(), threading.Event()
    results: list[T] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work(cancelled))
        except BaseException as problem:
            problems.append(problem)
        finally:
            done.set()

    threading.Thread(target=run, name=f"transfer of {job.id}", daemon=True).start()
    try:
        next_sign = time.monotonic() + KEEP_ALIVE_SECONDS
        while not done.wait(_LOOK_SECONDS):
            job.raise_if_stopped_now()
            if time.monotonic() >= next_sign:
                next_sign = time.monotonic() + KEEP_ALIVE_SECONDS
                job.still_alive(step=step)
    finally:
        cancelled.set()
    if problems:
        raise problems[0]
    return results[0]
