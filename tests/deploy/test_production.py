"""The site with the environment of a server: nothing for `check --deploy` to find, and HTTPS where it is due."""

from __future__ import annotations

import secrets
import subprocess
import sys
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from tests.conftest import StartManage
from tests.support import ROOT
from tests.support.processes import free_port, wait_until
from tests.support.sites.deployment import EXAMPLE

HOST = EXAMPLE["ALLOWED_HOSTS"]
SERVER = ("-m", "uvicorn")


@pytest.fixture
def environment(manage_environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    return {
        **manage_environment,
        **EXAMPLE,
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "SECRET_KEY": secrets.token_urlsafe(60),
        "MEDIA_ROOT": str(tmp_path / "media"),
        "STATIC_ROOT": str(tmp_path / "static"),
    }


def manage(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments], env=environment, cwd=ROOT, capture_output=True, text=True
    )


def test_check_deploy_finds_nothing(environment: dict[str, str]) -> None:
    done = manage(environment, "check", "--deploy", "--fail-level=DEBUG", "--database=default")
    assert (done.returncode, done.stdout) == (
        0,
        "System check identified no issues (0 silenced).\n",
    ), done.stderr


@pytest.mark.parametrize(
    "missing", ["HTTPS", "HSTS_SECONDS", "HSTS_SUBDOMAINS", "HSTS_PRELOAD", "ALLOWED_HOSTS"]
)
def test_check_deploy_misses_what_is_left_out(environment: dict[str, str], missing: str) -> None:
    del environment[missing]
    assert manage(environment, "check", "--deploy", "--fail-level=WARNING").returncode == 1


def test_the_server_speaks_https_serves_static_files_and_answers_probes(
    environment: dict[str, str], start_manage: StartManage
) -> None:
    assert manage(environment, "collectstatic", "--no-input", "--verbosity=0").returncode == 0
    port = free_port()
    arguments = ["project.asgi:application", f"--port={port}", "--no-proxy-headers"]
    server = start_manage(*arguments, program=SERVER, env={**environment, "SERVE_STATIC": "true"})
    probe = f"from project import probe; probe.main('http://127.0.0.1:{port}/health')"

    def healthy() -> bool:
        assert server.poll() is None, server.read_output()
        asked = [sys.executable, "-c", probe]
        return subprocess.run(asked, env=environment, cwd=ROOT, capture_output=True).returncode == 0

    def get(path: str, **headers: str) -> HTTPResponse:
        asked = HTTPConnection("127.0.0.1", port, timeout=60)
        asked.request("GET", path, headers={"Host": HOST, **headers})
        return asked.getresponse()

    by_proxy = {"X-Forwarded-Proto": "https"}
    wait_until(healthy)
    assert get("/admin/login/").headers["Location"] == f"https://{HOST}/admin/login/"
    page = get("/admin/login/", **by_proxy)
    assert page.status == 200
    assert page.headers["Strict-Transport-Security"] == "max-age=3600; includeSubDomains; preload"
    assert "; Secure" in page.headers["Set-Cookie"]
    script = get("/static/jobs/live.js")
    assert (script.status, script.headers["Content-Type"]) == (200, 'text/javascript; charset="utf-8"')
    assert script.headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in script.headers
    for gone in ("/static/jobs/nothing.js", "/static/../manage.py", "/static/%2e%2e/manage.py"):
        assert get(gone, **by_proxy).status == 404
    server.terminate()
    assert server.wait(timeout=60) in (0, -15)
