"""Files of remote workers against a real web server: cut off, killed, and addressed as no polite client would."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import lifecycle, reconcile
from tests.conftest import StartManage
from tests.support.processes import ManageProcess, free_port, wait_until
from tests.support.remote.remote_client import RemoteClient
from tests.support.remote.remote_films import claim
from tests.support.remote.remote_films import encoder as encoder  # fixtures
from tests.support.remote.remote_films import transcode as transcode
from tests.support.videos.video_site import files_in
from videos import storage

pytestmark = pytest.mark.django_db(transaction=True)

HOST = "127.0.0.1"
FIRST = "360p/seg_00001.m4s"
HALF = bytes(100_000)


class Server:
    def __init__(self, start_manage: StartManage, root: Path) -> None:
        self.port = free_port()
        environment = {"VIDEOS_ROOT": str(root), "ALLOWED_HOSTS": HOST}
        self.process: ManageProcess = start_manage(
            "runserver", "--noreload", f"{HOST}:{self.port}", env=environment
        )
        wait_until(self._answers)

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.process.read_output()
        try:
            urllib.request.urlopen(f"http://{HOST}:{self.port}/api/worker/health", timeout=10).close()
        except urllib.error.HTTPError:
            return True
        except (urllib.error.URLError, TimeoutError):
            return False
        return True

    @contextlib.contextmanager
    def put(
        self, far: RemoteClient, job: dict[str, Any], name: str, announced: int, sent: bytes
    ) -> Iterator[socket.socket]:
        lines = {
            "Host": HOST,
            "Authorization": f"Bearer {far.key}",
            "X-Lease-Token": str(job["token"]),
            "X-Content-SHA256": hashlib.sha256(sent).hexdigest(),
            "Content-Length": str(announced),
            "Connection": "close",
        }
        head = f"PUT /api/worker/jobs/{job['job_id']}/files/{name} HTTP/1.1\r\n"
        head += "".join(f"{header}: {value}\r\n" for header, value in lines.items())
        with socket.create_connection((HOST, self.port), timeout=60) as connection:
            connection.sendall(head.encode() + b"\r\n" + sent)
            yield connection


@pytest.fixture
def server(start_manage: StartManage, videos_root: Path) -> Server:
    return Server(start_manage, videos_root)


def arriving() -> list[Path]:
    place = storage.workplace() / "remote"
    return [path for path in place.rglob("*") if path.is_file()] if place.exists() else []


def status_line(connection: socket.socket) -> str:
    return connection.makefile("rb").readline().decode().strip()


def test_an_upload_that_is_cut_off_leaves_nothing(
    server: Server, encoder: RemoteClient, videos_root: Path
) -> None:
    job, before = claim(encoder), files_in(videos_root)
    with server.put(encoder, job, FIRST, 2 * len(HALF), HALF) as connection:
        wait_until(arriving)
        connection.shutdown(socket.SHUT_WR)
        assert " 422 " in status_line(connection)
    assert files_in(videos_root) == before


@pytest.mark.parametrize("end", ["the job ends", "reconcile"])
def test_what_a_killed_server_leaves_is_gone_when_the_job_ends_or_when_it_is_reconciled(
    server: Server, encoder: RemoteClient, videos_root: Path, end: str
) -> None:
    job, before = claim(encoder), files_in(videos_root)
    with server.put(encoder, job, FIRST, 2 * len(HALF), HALF):
        wait_until(arriving)
        server.process.kill_group()
    assert arriving()
    place = storage.workplace() / "remote" / f"{job['job_id']}-{job['token']}"
    if end == "the job ends":
        lifecycle.cancel(job["job_id"])
    else:
        place = place.rename(place.with_name(f"{job['job_id']}-{job['token'] + 1}"))  # of another lease
        reconcile.reconcile()
    assert not place.exists()
    assert files_in(videos_root) == before


@pytest.mark.parametrize(
    "name",
    ["../../../evil", "360p/../../evil", "%2e%2e/%2e%2e/evil", "..%2f..%2fevil", "/etc/evil", "360p\\evil"],
)
def test_a_path_that_is_sent_as_it_is_leads_nowhere(
    server: Server, encoder: RemoteClient, videos_root: Path, name: str
) -> None:
    job, before = claim(encoder), set(videos_root.parent.rglob("*"))
    with server.put(encoder, job, name, 4, b"evil") as connection:
        assert " 422 " in status_line(connection)
    assert set(videos_root.parent.rglob("*")) == before
