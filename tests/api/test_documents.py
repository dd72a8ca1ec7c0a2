"""One document says what the API does; its page comes from this site alone; a site may leave all of it out."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from django.test import Client
from django.urls import include, path
from pytest_django import Settings

from jobs.api import documents
from jobs.api.errors import Problem
from jobs.models import Status, WorkerStatus
from tests.support import ROOT

urlpatterns = [path("elsewhere/v1/", include("jobs.api.urls"))]


@pytest.fixture
def document() -> Any:
    return Client().get("/api/openapi.json").json()


def operations(document: Any) -> list[tuple[str, str, Any]]:
    return [
        (path, method, op) for path, methods in document["paths"].items() for method, op in methods.items()
    ]


def test_the_document_lists_the_operations_of_the_contract(document: Any) -> None:
    assert {f"{method.upper()} {path}" for path, method, _ in operations(document)} == {
        "POST /api/worker/register",
        "POST /api/worker/heartbeat",
        "POST /api/worker/claim",
        *(f"POST /api/worker/jobs/{{job_id}}/{verb}" for verb in ("progress", "complete", "fail", "release")),
        *(f"POST /api/worker/{verb}" for verb in ("progress", "complete", "fail")),
        "GET /api/worker/empty",
        *(f"GET /api/worker/jobs/{{job_id}}/{what}" for what in ("order", "source", "files/{name}")),
        "POST /api/worker/jobs/{job_id}/proceed",
        "PUT /api/worker/jobs/{job_id}/files/{name}",
        "POST /api/worker/jobs/{job_id}/archive",
        "GET /api/worker/health",
        "GET /api/jobs",
        "GET /api/jobs/{job_id}",
        "POST /api/jobs/{job_id}/retry",
        "POST /api/jobs/{job_id}/cancel",
        "GET /api/queue",
        "GET /api/workers",
        *(f"POST /api/workers/{{worker_id}}/{verb}" for verb in ("disable", "enable", "revoke", "forget")),
        "GET /api/events/",
        *(f"{method} /api/videos" for method in ("GET", "POST")),
        *(f"{method} /api/videos/{{video_id}}" for method in ("GET", "PATCH", "DELETE")),
        *(f"POST /api/videos/{{video_id}}/{verb}" for verb in ("retry", "retranscode", "restore")),
        "GET /api/videos/{video_id}/subtitles",
        *(f"{method} /api/videos/{{video_id}}/subtitles/{{language}}" for method in ("GET", "PUT", "DELETE")),
        *(f"{method} /api/channels" for method in ("GET", "POST")),
        "GET /api/channels/{channel_id}",
        "GET /api/channels/{channel_id}/videos",
        "GET /api/health",
    }


def test_no_two_operations_have_one_name(document: Any) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(names) == len(set(names))


def test_what_may_be_changed_of_a_video_has_no_default(document: Any) -> None:
    change = document["components"]["schemas"]["VideoChange"]
    assert set(change["properties"]) == {"title", "visibility", "channel", "owner"}
    assert "required" not in change
    assert not any("default" in field for field in change["properties"].values())


def test_every_refusal_is_documented_as_a_problem(document: Any) -> None:
    for address, _, operation in operations(document):
        for status, answer in operation["responses"].items():
            if int(status) >= 400 and not address.endswith("health"):
                schema = answer["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}, (address, status)
    assert set(Problem.model_fields) == {"error", "detail"}


def test_every_operation_says_who_may_use_it(document: Any) -> None:
    worker: list[Any] = [{"WorkerBearer": []}, {"WorkerKeyHeader": []}]
    staff: list[Any] = [{"StaffBearer": []}, {"StaffSession": []}]
    for address, _, operation in operations(document):
        special: dict[str, Any] = {
            "/api/worker/health": None,
            "/api/health": None,
            "/api/worker/register": [{"AdminSecret": []}],
        }
        expected = special.get(address, worker if operation["tags"] == ["worker"] else staff)
        assert operation.get("security") == expected, address
        assert operation["summary"]
    schemes = document["components"]["securitySchemes"]
    assert not [scheme for scheme in schemes.values() if scheme.get("in") == "query"]


def test_the_states_in_the_document_are_those_of_the_models(document: Any) -> None:
    schemas = document["components"]["schemas"]
    assert schemas["JobState"]["properties"]["status"]["enum"] == list(Status.values)
    assert schemas["JobRow"]["properties"]["status"]["enum"] == list(Status.values)
    states = [*WorkerStatus.values, "disabled"]
    assert schemas["WorkerRow"]["properties"]["state"]["enum"] == [*states, "revoked"]
    assert schemas["HeartbeatAnswer"]["properties"]["state"]["enum"] == states


def test_what_is_sent_may_have_no_unknown_fields_in_the_document_either(document: Any) -> None:
    bodies = {
        reference.rpartition("/")[2]
        for _, _, operation in operations(document)
        if "application/json" in (content := operation.get("requestBody", {}).get("content", {}))
        for reference in re.findall(r"#/components/schemas/\w+", str(content["application/json"]["schema"]))
    }
    assert bodies >= {"Claim", "Heartbeat", "Completion", "VideoChange", "ChannelForm", "RetranscodeOrder"}
    for name in bodies:
        assert document["components"]["schemas"][name]["additionalProperties"] is False, name


def test_files_are_bodies_of_bytes_with_a_checksum_and_a_lease(document: Any) -> None:
    kinds = {"files/{name}": ("put", "application/octet-stream"), "archive": ("post", "application/gzip")}
    for what, (method, content_type) in kinds.items():
        operation = document["paths"][f"/api/worker/jobs/{{job_id}}/{what}"][method]
        assert list(operation["requestBody"]["content"]) == [content_type]
        headers = {p["name"]: p["required"] for p in operation["parameters"] if p["in"] == "header"}
        assert headers == {"X-Lease-Token": True, "X-Content-SHA256": True}
        assert {"404", "409", "411", "413", "422", "507"} <= set(operation["responses"])
    source = document["paths"]["/api/worker/jobs/{job_id}/source"]["get"]
    assert "application/octet-stream" in source["responses"]["206"]["content"]


@pytest.mark.urls("tests.api.test_documents")
def test_a_site_chooses_the_path() -> None:
    document = Client().get("/elsewhere/v1/openapi.json").json()
    assert all(address.startswith("/elsewhere/v1/") for address in document["paths"])
    assert Client().post("/elsewhere/v1/worker/claim").status_code == 401
    page = Client().get("/elsewhere/v1/docs").content.decode()
    assert "/elsewhere/v1/worker/claim" in page
    assert Client().get("/api/openapi.json").status_code == 404
    assert not [address for address in document["paths"] if "video" in address], "this site has none"


class Apart:
    """The URLs of a site that offers the API of videos under a path of its own, beside that of the queue."""

    urlpatterns = [
        path("queue/", include("jobs.api.urls")),
        path("tv/", include("videos.api.urls")),
    ]


def test_each_part_is_found_where_the_site_has_put_it(settings: Settings) -> None:
    settings.ROOT_URLCONF = Apart
    documents = [Client().get(f"/{place}/openapi.json").json() for place in ("queue", "tv")]
    assert documents[0] == documents[1]
    assert {"/queue/jobs", "/tv/videos", "/tv/channels"} <= set(documents[0]["paths"])
    assert "/tv/channels" in Client().get("/tv/docs").content.decode()


def test_two_parts_that_mean_different_things_by_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="Job"):
        documents._add({"Job": {"type": "object"}}, {"Job": {"type": "string"}}, "other:openapi")


def test_the_page_shows_every_operation_and_loads_nothing_from_elsewhere(document: Any) -> None:
    answer = Client().get("/api/docs")
    page = answer.content.decode()
    for address, method, operation in operations(document):
        assert f'<section id="{operation["operationId"]}">' in page
        assert f"<code>{address}</code>" in page, (method, address)
    for name in document["components"]["schemas"]:
        assert f'id="schema-{name}"' in page
    links = re.findall(r'(?:src|href)="([^"#]+)"', page)
    assert links == ["/static/jobs/api.css", "/api/openapi.json"]
    assert "<code>application/gzip</code>" in page
    for described in ("ChannelForm", "RetranscodeOrder", "VideoChange", "Claim"):
        assert f'Body: <a href="#schema-{described}">' in page
    form = page.partition('id="upload_video"')[2].partition("</section>")[0]
    assert all(f"<code>{field}</code>" in form for field in ("channel", "title", "file"))
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets <= set(re.findall(r'id="([^"]+)"', page))
    assert "<script" not in page
    assert "default-src 'none'" in answer["Content-Security-Policy"]


def test_the_document_and_the_page_are_only_read() -> None:
    for name in ("docs", "openapi.json"):
        assert Client().post(f"/api/{name}").status_code == 405


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SITE = """
import sys
{before}
from django.conf import settings
settings.configure(
    SECRET_KEY="x", ROOT_URLCONF="{urls}", INSTALLED_APPS={apps}, USE_TZ=True,
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
)
import django
django.setup()
from django.core.management import call_command
call_command("check")
from django.urls import get_resolver
"""


def test_a_site_without_the_api_needs_no_ninja() -> None:
    apps = ["django.contrib.contenttypes", "django.contrib.auth", "jobs"]
    code = SITE.format(
        before="sys.modules['ninja'] = sys.modules['pydantic'] = None", urls="jobs.urls", apps=apps
    )
    code += (
        "get_resolver().url_patterns; import jobs.worker.loop, jobs.testing; print('pydantic' in sys.modules)"
    )
    assert run_python(code).endswith("True\n"), "as the None that was put there"


def test_a_site_without_the_admin_has_the_worker_api_alone() -> None:
    apps = ["django.contrib.contenttypes", "django.contrib.auth", "jobs"]
    code = SITE.format(before="", urls="jobs.api.urls", apps=apps)
    code += "print(sorted({p.name for p in get_resolver().url_patterns if p.name}))"
    names = run_python(code).splitlines()[-1]
    assert "claim" in names
    assert "workers" not in names
