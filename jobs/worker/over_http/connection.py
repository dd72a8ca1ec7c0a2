"""Requests to the server, and what their answers mean for a worker."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from jobs import fleet
from jobs.exceptions import JobsError, WorkerDismissed

TIMEOUT = httpx.Timeout(connect=5, read=20, write=20, pool=5)
HEARTBEAT_TIMEOUT = httpx.Timeout(connect=3, read=5, write=5, pool=3)
"""The thread that sends it also enforces deadlines: it must not hang for long."""
LONGEST_REST = 60.0
"""A server that asks for more (Retry-After) is asked again after this long."""
_REST_WITHOUT_WORD = 1.0
_FULL = 507

for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # a line for every request helps nobody


class Unreachable(JobsError):
    """No answer, or none that settles anything: later the same request will succeed."""


class NotSprocket(Unreachable):
    """Something answers there, but not the worker API. At the start that is a mistake; later a proxy that restarts."""


class CannotTrust(Unreachable):
    """The certificate is not one that this machine trusts."""


class Refused(JobsError):
    """The server understood, and says no."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


@dataclass(frozen=True)
class Access:
    """Where the server is and what opens it."""

    server: str
    key: str

    def __repr__(self) -> str:
        return f"Access({self.server!r})"  # never the key

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


def make_client(timeout: httpx.Timeout, *, connections: int) -> httpx.Client:
    """TLS by the system's trust store (OpenSSL honours SSL_CERT_FILE). Redirects are not followed: the key stays."""
    return httpx.Client(
        verify=ssl.create_default_context(),
        timeout=timeout,
        follow_redirects=False,
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        headers={"User-Agent": f"sprocket-worker/{fleet.current_version()}", "Accept": "application/json"},
    )


class Rest:
    """After 429 or 503 the server is left alone for as long as it asks, by all threads that use this."""

    def __init__(self) -> None:
        self._until = 0.0
        self._why = ""

    def check(self) -> None:
        left = self._until - time.monotonic()
        if left > 0:
            raise Unreachable(f"{self._why}; it is left alone for another {left:.0f} s")

    def begin(self, response: httpx.Response, why: str) -> None:
        self._until = time.monotonic() + min(LONGEST_REST, _retry_after(response))
        self._why = why


def _retry_after(response: httpx.Response) -> float:
    given = response.headers.get("Retry-After", "").strip()
    if given.isdigit():
        return float(given[:9])
    try:  # by the clock of whoever answered: ours may be wrong
        answered = parsedate_to_datetime(response.headers.get("Date", ""))
        return max(0.0, (parsedate_to_datetime(given) - answered).total_seconds())
    except (TypeError, ValueError):
        return _REST_WITHOUT_WORD


class Connection:
    """The worker API for the worker's own threads: small bodies, JSON on both sides."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._rest = Rest()
        self._client: httpx.Client | None = None
        self._making = threading.Lock()

    def post(
        self, path: str, body: dict[str, Any], *, timeout: httpx.Timeout = TIMEOUT, **headers: str
    ) -> dict[str, Any]:
        given = {**self.access.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self._ask("POST", path, json=body, headers=given, timeout=timeout)

    def get(self, path: str) -> dict[str, Any]:
        return self._ask("GET", path, headers=self.access.headers)

    def _ask(self, method: str, path: str, **given: Any) -> dict[str, Any]:
        self._rest.check()
        try:
            response = self._open().request(method, f"{self.access.server}/worker/{path}", **given)
        except httpx.HTTPError as error:
            raise as_unreachable(error) from None
        return read_answer(response, self._rest)

    def _open(self) -> httpx.Client:
        with self._making:
            if self._client is None:
                self._client = make_client(TIMEOUT, connections=4)
            return self._client

    def close(self) -> None:
        """The next request opens new connections."""
        with self._making:
            client, self._client = self._client, None
        if client is not None:
            client.close()


def as_unreachable(error: httpx.HTTPError) -> Unreachable:
    text = str(error).strip() or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return CannotTrust(text)
    return Unreachable(text)


def read_answer(response: httpx.Response, rest: Rest) -> dict[str, Any]:
    """The JSON object of a success. Raises Refused for a clear no, WorkerDismissed for 401, else Unreachable."""
    status, answer = response.status_code, _json_of(response)
    if response.is_success and answer is not None:
        return answer
    problem = answer if answer is not None and {"error", "detail"} <= answer.keys() else None
    said = str(problem["detail"]) if problem else f"HTTP {status} {response.reason_phrase}".strip()
    if status == 429 or (status == 503 and _is_busy(problem)):
        rest.begin(response, f"the server says: {said}")
        raise Unreachable(said)
    if status == 401 and problem:
        raise WorkerDismissed(f"The server does not accept this worker's key: {said}")
    if (status >= 500 and status != _FULL) or status in (408, 425):
        raise Unreachable(said)
    if problem:
        raise Refused(status, str(problem["error"]), said)
    if response.is_redirect:
        place = response.headers.get("Location", "")[:200]
        raise NotSprocket(f"it redirects to {place!r}, and redirects are not followed")
    raise NotSprocket(f"it answers {said}, and not as the worker API does")


def _is_busy(problem: dict[str, Any] | None) -> bool:
    return problem is None or problem["error"] != "registration_off"


def _json_of(response: httpx.Response) -> dict[str, Any] | None:
    try:
        answer = response.json()
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
