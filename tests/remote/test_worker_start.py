"""How a remote worker is started, and what it says when it cannot be."""

from __future__ import annotations

import http.server
import shutil
import ssl
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import enqueue
from jobs.models import Worker
from jobs.worker.over_http.address import WrongAddress, parse_server
from tests.jobapp.notes import read_notes
from tests.support.processes import ManageProcess, free_port, has_logged, wait_until
from tests.support.queue.workers import wait_for_status
from tests.support.remote.remote_site import RemoteSite, is_ready, stop

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "k" * 43
SECRET = "a secret of the administrators"
LOOKS_LIKE = "https://example.org/api"
"""How the URL of an API looks: said where something else answers."""


def ends_with(worker: ManageProcess, code: int, *parts: str) -> None:
    """One clear line, and nothing else."""
    assert worker.wait(timeout=120) == code, worker.read_output()
    (line,) = worker.read_output().strip().splitlines()
    for part in parts:
        assert part in line


class _Elsewhere(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        if self.path.startswith("/moved"):
            self.send_response(301)
            self.send_header("Location", "https://example.org/api/worker/heartbeat")
            body = b""
        else:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            body = b"<html>Welcome</html>"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """A web server that is not a Sprocket site."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("--server", "ftp://example.org"), "'ftp://example.org'"),
        (("--server", "example.org"), "'example.org'"),
        (("--server", "http://[::1"), "'http://[::1'"),
        (("--server", "http://example.org/api"), "--allow-http"),
        (("--server", "https://ann:pass@example.org/api"), "--key-file"),
        (("--concurrency", "1000"), "256"),
        (("--types", "work.nothing"), "'work.nothing'"),
    ],
)
def test_wrong_arguments(remote_site: RemoteSite, arguments: tuple[str, str], shown: str) -> None:
    ends_with(remote_site.work(*arguments, key=KEY), 2, shown)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ftp://example.org", "not_a_site"),
        ("example.org", "not_a_site"),
        ("http://[::1", "not_a_url"),
        ("https://example.org/a b", "not_a_url"),
        ("http://example.org/api", "plain_http"),
        ("https://ann:pass@example.org/api", "more_than_a_place"),
    ],
)
def test_an_address_that_a_worker_may_not_use(text: str, code: str) -> None:
    with pytest.raises(WrongAddress) as refusal:
        parse_server(text)
    assert refusal.value.code == code


def test_without_a_key_it_says_where_one_comes_from(remote_site: RemoteSite, tmp_path: Path) -> None:
    ends_with(remote_site.work(), 2, "SPROCKET_KEY", "--register")
    ends_with(remote_site.work("--key-file", str(tmp_path / "nothing")), 2, str(tmp_path / "nothing"))
    ends_with(remote_site.work(key="not a key"), 2, "SPROCKET_KEY", "43")
    ends_with(remote_site.work("--register", "shed"), 2, "SPROCKET_ADMIN_SECRET")


def test_of_runworker_it_refuses_what_makes_no_sense(remote_site: RemoteSite) -> None:
    for arguments, shown in (
        (("--processes", "2"), "--concurrency"),
        (("--name", "me"), "--name"),
    ):
        ends_with(remote_site.work(*arguments, key=KEY, script=False), 2, shown)


def test_a_server_that_is_none(remote_site: RemoteSite, elsewhere: str) -> None:
    ends_with(remote_site.work(key=KEY, server=f"{elsewhere}/api"), 1, elsewhere, LOOKS_LIKE)
    moved_to = "'https://example.org/api/worker/heartbeat'"
    ends_with(remote_site.work(key=KEY, server=f"{elsewhere}/moved"), 1, moved_to, LOOKS_LIKE)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_certificates_are_judged_by_the_trust_store_of_the_machine(
    remote_site: RemoteSite, tmp_path: Path
) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=here"],
            *["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://127.0.0.1:{server.server_address[1]}/api"
    ends_with(remote_site.work(key=KEY, server=url), 1, "SSL_CERT_FILE")
    trusting = {"SSL_CERT_FILE": str(certificate)}
    ends_with(remote_site.work(key=KEY, server=url, env=trusting), 1, LOOKS_LIKE)
    server.shutdown()
    server.server_close()


def test_a_wrong_key_and_a_wrong_path(remote_site: RemoteSite) -> None:
    remote_site.serve()
    ends_with(remote_site.work(key=KEY), 1, " key")
    wrong = remote_site.wire_url.removesuffix("/api")
    ends_with(remote_site.work(key=KEY, server=wrong), 1, LOOKS_LIKE)


def test_a_server_that_is_not_there_yet_is_waited_for(remote_site: RemoteSite, log: str) -> None:
    job = enqueue("remote.record", log=log)
    worker = remote_site.work(key=remote_site.key(), server=f"http://127.0.0.1:{free_port()}/api")
    wait_until(lambda: has_logged(worker, "unreachable"))
    assert stop(worker) == 0
    worker = remote_site.work("--drain", key=remote_site.key("other"))
    wait_until(lambda: has_logged(worker, "unreachable"))
    remote_site.serve()
    wait_for_status(job, "completed")
    assert worker.wait(timeout=120) == 0


def test_it_registers_by_itself_once_and_keeps_the_key(remote_site: RemoteSite, log: str) -> None:
    remote_site.serve(JOBS_WORKER_ADMIN_SECRET=SECRET)
    folder = remote_site.folder(1)
    for _ in range(2):
        job = enqueue("remote.record", log=log)
        worker = remote_site.work(
            "--register", "shed", "--drain", folder=folder, env={"SPROCKET_ADMIN_SECRET": SECRET}
        )
        assert worker.wait(timeout=120) == 0, worker.read_output()
        wait_for_status(job, "completed")
    assert Worker.objects.get().name == "shed"
    (file,) = folder.glob("key-*")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    key = file.read_text().strip()
    worker = remote_site.work(folder=folder)
    wait_until(lambda: is_ready(worker))
    environment = Path(f"/proc/{worker.pid}/cmdline").read_bytes()
    assert key.encode() not in environment
    assert key not in worker.read_output()
    ends_with(remote_site.work(folder=folder), 1, "A worker with this key is running already")
    assert stop(worker) == 0
    assert len(read_notes(log)) == 2


def test_a_registration_that_is_refused_leaves_no_key(remote_site: RemoteSite) -> None:
    remote_site.serve()
    folder = remote_site.folder(1)
    refused = remote_site.work("--register", "shed", folder=folder, env={"SPROCKET_ADMIN_SECRET": SECRET})
    ends_with(refused, 1, "Registration is off")
    remote_site.kill_server()
    remote_site.serve(JOBS_WORKER_ADMIN_SECRET=SECRET)
    wrong = remote_site.work("--register", "shed", folder=folder, env={"SPROCKET_ADMIN_SECRET": "a guess"})
    ends_with(wrong, 1, "SPROCKET_ADMIN_SECRET is wrong")
    assert list(folder.glob("key-*")) == []
