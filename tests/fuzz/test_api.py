"""The document, fuzzed by schemathesis against a real server: whatever is sent, no operation fails, and every answer
is one that the document names."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import User
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from pytest_django.live_server_helper import LiveServer
from schemathesis.checks import not_a_server_error
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.transport.serialization import serialize_binary

from jobs import enqueue, staff_tokens
from jobs.models import Job
from tests.conftest import Declare
from tests.support.remote.remote_client import REMOTE, SECRET, RemoteClient, new_remote
from tests.support.videos.video_site import accept, clip
from videos.models import Video

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]

EXAMPLES = 40
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
CONFIG = SchemathesisConfig(
    projects=ProjectsConfig(
        default=ProjectConfig(
            generation=GenerationConfig(max_examples=EXAMPLES, with_security_parameters=False)
        )
    )
)
fuzzed = hypothesis_settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@schemathesis.serializer("application/gzip", "application/x-subrip", "text/vtt")
def as_bytes(context: schemathesis.SerializationContext, value: Any) -> bytes:
    """Archives and subtitles are generated as bytes, which are neither; tests of their own send real ones."""
    sent: bytes = serialize_binary(value)
    return sent


class Site:
    """A worker that holds jobs, a video, and somebody of the staff: what requests may be about."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.far: RemoteClient = new_remote()
        self._token = staff_tokens.issue(User.objects.create_superuser("root"), timedelta(days=1))
        self.video: Video = accept(clip(5))

    def headers(self, case: Any) -> dict[str, str]:
        path = case.operation.path
        if path.endswith("/register"):
            return {"X-Admin-Secret": SECRET}
        key = self.far.key if "/worker/" in path else self._token
        state_instead_of_stream = {"Accept": "application/json"} if path.endswith("/events/") else {}
        return {"Authorization": f"Bearer {key}", **state_instead_of_stream}

    def aim(self, case: Any) -> None:
        """At things that exist, with the token of a live lease."""
        job = Job.objects.leased().filter(worker=self.far.worker).first() or self._another()
        there = {
            "job_id": job.pk,
            "worker_id": self.far.worker.pk,
            "video_id": self.video.pk,
            "channel_id": self.video.channel_id,
        }
        parameters = case.path_parameters or {}
        parameters.update({name: value for name, value in there.items() if name in parameters})
        if isinstance(case.body, dict) and "token" in case.body:
            case.body["token"] = job.lease_token
        if case.headers and "X-Lease-Token" in case.headers:
            case.headers["X-Lease-Token"] = str(job.lease_token)

    def _another(self) -> Job:
        enqueue(REMOTE)
        self.far.heartbeat("idle")
        return Job.objects.get(pk=self.far.claim_one()["job_id"])


@pytest.fixture
def site(live_server: LiveServer, declare: Declare, settings: Any, videos_root: Any) -> Site:
    settings.JOBS = {
        **settings.JOBS,
        "WORKER_ADMIN_SECRET": SECRET,
        "REGISTRATION_RATE": 100_000,
        "FAILED_AUTH_RATE": 100_000,
    }
    declare(REMOTE, remote=True)
    return Site(live_server.url)


@pytest.mark.parametrize("aimed", [False, True], ids=["anything", "things that exist"])
def test_whatever_is_sent_the_answer_is_one_that_the_document_names(aimed: bool, site: Site) -> None:
    schema = schemathesis.openapi.from_url(f"{site.url}/api/openapi.json", config=CONFIG)
    wrong: dict[str, Exception] = {}
    tried = 0
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if aimed and "{" not in operation.path:
            continue

        @fuzzed
        @given(case=operation.as_strategy())
        def fuzz(case: Any) -> None:
            nonlocal tried
            tried += 1
            if aimed:
                site.aim(case)
            response = case.call(headers=site.headers(case))
            case.validate_response(response, checks=CHECKS)

        try:
            fuzz()
        except Exception as error:
            wrong[operation.label] = error
    assert not wrong, "\n\n".join(f"{label}\n{error}" for label, error in wrong.items())
    assert tried >= EXAMPLES
