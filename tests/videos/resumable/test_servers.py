"""Resumable uploads against real web servers, with a stock client (tuspy): interrupted, killed, two at once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from django.contrib.auth.models import User
from tusclient.client import TusClient
from tusclient.exceptions import TusUploadFailed
from tusclient.storage.filestorage import FileStorage

from jobs import staff_tokens
from tests.conftest import StartManage
from tests.support.processes import ManageProcess, wait_until
from tests.support.servers.tus import CHUNK, encoded
from tests.support.videos.video_site import channel, clip
from videos.models import ResumableUpload, Video

pytestmark = pytest.mark.django_db(transaction=True)

HOST = "127.0.0.1"
MEGABYTE = 1 << 20


class Server:
    """A web server of the site, and a member of the staff who uploads to it."""

    def __init__(self, start_manage: StartManage, root: Path, token: str, **settings: str) -> None:
        with socket.socket() as listener:
            listener.bind((HOST, 0))
            self.port = listener.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}/api/uploads/"
        self.headers = {"Authorization": f"Bearer {token}"}
        environment = {
            "VIDEOS_ROOT": str(root),
            "ALLOWED_HOSTS": HOST,
            "VIDEOS_MIN_FREE_BYTES": "0",
            **settings,
        }
        address = f"{HOST}:{self.port}"
        self.process: ManageProcess = start_manage("runserver", "--noreload", address, env=environment)
        wait_until(self._answers)

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.process.read_output()
        try:
            urllib.request.urlopen(urllib.request.Request(self.url, method="OPTIONS"), timeout=10).close()
        except (urllib.error.URLError, TimeoutError):
            return False
        return True

    def client(self) -> TusClient:
        return TusClient(self.url, headers=self.headers)

    def ask(self, method: str, place: str, data: bytes | None = None, **headers: str) -> requests.Response:
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return requests.request(
            method, place, data=data, headers={"Tus-Resumable": "1.0.0", **self.headers, **more}, timeout=60
        )

    def begin(self, length: int) -> str:
        """The path of a new upload."""
        metadata = encoded(filename="film.mp4", channel=str(channel().pk))
        return self.ask("POST", self.url, Upload_Length=str(length), Upload_Metadata=metadata).headers[
            "Location"
        ]

    def at(self, path: str) -> str:
        return f"http://{HOST}:{self.port}{path}"

    def offset(self, path: str) -> int:
        return int(self.ask("HEAD", self.at(path)).headers["Upload-Offset"])

    @contextlib.contextmanager
    def half_a_patch(self, path: str, offset: int, announced: int, sent: bytes) -> Iterator[None]:
        """A client that has announced more than it has sent."""
        lines = {
            "Host": HOST,
            "Tus-Resumable": "1.0.0",
            "Upload-Offset": str(offset),
            "Content-Type": CHUNK,
            "Content-Length": str(announced),
            **self.headers,
        }
        head = f"PATCH {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        with socket.create_connection((HOST, self.port)) as connection:
            connection.sendall(head.encode() + b"\r\n" + sent)
            wait_until(lambda: self.offset(path) == offset + len(sent))
            yield

    def peak_memory(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert match is not None
        return int(match[1]) * 1024


@pytest.fixture
def serve(start_manage: StartManage, videos_root: Path) -> Callable[..., Server]:
    token = staff_tokens.issue(User.objects.create_superuser("ann"), timedelta(hours=1))
    return lambda **settings: Server(start_manage, videos_root, token, **settings)


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """Some megabytes: a clip, and a box that players skip."""
    padding = 6 * MEGABYTE
    path = tmp_path / "My film.mp4"
    path.write_bytes(clip(50).read_bytes() + padding.to_bytes(4, "big") + b"free" + bytes(padding - 8))
    return path


def is_whole(film: Path) -> bool:
    return bool(Video.objects.get().source_sha256 == hashlib.sha256(film.read_bytes()).hexdigest())


def metadata(**more: Any) -> dict[str, str]:
    return {"filename": "My film.mp4", "channel": channel().slug, **more}


def test_a_stock_client_uploads_with_checksums(serve: Callable[..., Server], film: Path) -> None:
    uploader = (
        serve()
        .client()
        .uploader(str(film), chunk_size=MEGABYTE, metadata=metadata(title="Ann's"), upload_checksum=True)
    )
    uploader.upload()
    assert is_whole(film)
    video = Video.objects.get()
    assert (video.title, video.owner, video.channel.slug) == ("Ann's", "ann", "films")


def test_a_stock_client_that_was_interrupted_goes_on_where_it_stopped(
    serve: Callable[..., Server], film: Path, tmp_path: Path
) -> None:
    server = serve()
    memory = FileStorage(str(tmp_path / "uploads.json"))
    options: dict[str, Any] = {
        "chunk_size": MEGABYTE,
        "metadata": metadata(),
        "store_url": True,
        "url_storage": memory,
    }
    server.client().uploader(str(film), **options).upload(stop_at=3 * MEGABYTE)
    assert not Video.objects.exists()
    another = server.client().uploader(str(film), **options)
    assert another.offset == 3 * MEGABYTE
    another.upload()
    assert is_whole(film)
    assert ResumableUpload.objects.count() == 1
    memory.close()


def test_a_stock_client_hears_why_its_file_is_refused(
    serve: Callable[..., Server], tmp_path: Path, videos_root: Path
) -> None:
    letter = tmp_path / "letter.mp4"
    letter.write_bytes(b"Dear all, " * 1000)
    with pytest.raises(TusUploadFailed) as refused:
        serve().client().uploader(str(letter), metadata=metadata()).upload()
    assert refused.value.status_code == 422
    told = json.loads(refused.value.response_content)
    assert (told["error"], bool(told["detail"])) == ("refused", True)
    assert not ResumableUpload.objects.exists()
    assert [path for path in videos_root.rglob("*") if path.is_file()] == []


def test_a_server_that_was_killed_in_the_middle_goes_on_at_the_right_byte(
    serve: Callable[..., Server], film: Path
) -> None:
    data, server = film.read_bytes(), serve()
    path = server.begin(len(data))
    with server.half_a_patch(path, 0, len(data), data[: 2 * MEGABYTE]):
        os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()
    another = serve()
    assert another.offset(path) == 2 * MEGABYTE
    uploader = another.client().uploader(str(film), url=another.at(path), chunk_size=MEGABYTE)
    assert uploader.offset == 2 * MEGABYTE
    uploader.upload()
    assert is_whole(film)


def test_of_two_clients_at_two_servers_one_wins(serve: Callable[..., Server], film: Path) -> None:
    data, one, other = film.read_bytes(), serve(), serve()
    path = one.begin(len(data))
    headers = {"Content-Type": CHUNK, "Upload-Offset": str(MEGABYTE)}
    with one.half_a_patch(path, 0, len(data), data[:MEGABYTE]):
        for server in (one, other):
            assert server.ask("PATCH", server.at(path), data[MEGABYTE:], **headers).status_code == 423
            assert server.ask("DELETE", server.at(path)).status_code == 423
            assert server.offset(path) == MEGABYTE
    wait_until(
        lambda: other.ask("PATCH", other.at(path), data[MEGABYTE:], **headers).status_code in (204, 409)
    )
    assert is_whole(film)


def test_many_who_send_the_same_upload_at_once_make_one_whole_video(
    serve: Callable[..., Server], film: Path
) -> None:
    data, servers = film.read_bytes(), [serve(), serve()]
    path = servers[0].begin(len(data))

    def send(number: int) -> set[int]:
        server, seen = servers[number % 2], set()
        while (offset := server.offset(path)) < len(data):
            piece = data[offset : offset + 700_001]
            answer = server.ask(
                "PATCH", server.at(path), piece, Content_Type=CHUNK, Upload_Offset=str(offset)
            )
            seen.add(answer.status_code)
        return seen

    with ThreadPoolExecutor(4) as pool:
        seen = set().union(*pool.map(send, range(4)))
    assert seen <= {204, 409, 423}
    assert is_whole(film)


def test_the_quota_holds_when_many_begin_at_once(serve: Callable[..., Server]) -> None:
    server = serve(VIDEOS_UPLOAD_QUOTA_BYTES="1000")
    channel()

    def begin(number: int) -> int:
        answer = server.ask("POST", server.url, Upload_Length="200", Upload_Metadata=encoded(channel="films"))
        return answer.status_code

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(begin, range(8)))
    assert answers == [201] * 5 + [413] * 3
    assert ResumableUpload.objects.count() == 5


def test_bytes_pass_through_and_are_not_gathered_in_memory(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    padding = 300 * MEGABYTE
    large = tmp_path / "large.mp4"
    with large.open("wb") as file:
        file.write(clip(50).read_bytes() + padding.to_bytes(4, "big") + b"free")
        file.truncate(file.tell() + padding - 8)
    server = serve()
    before = server.peak_memory()
    server.client().uploader(str(large), chunk_size=100 * MEGABYTE, metadata=metadata()).upload()
    assert Video.objects.get().source_bytes == large.stat().st_size
    assert server.peak_memory() - before < 40 * MEGABYTE
