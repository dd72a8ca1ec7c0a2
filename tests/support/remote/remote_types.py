"""A job type whose remote workers send files: `a.txt`, `b/c.txt`, and `last.txt`, which makes them real."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from jobs import enqueue
from jobs.remote_work import FileRefused, RemoteJob, RemoteWork, SourceFile
from tests.conftest import Declare
from tests.support.remote.remote_client import REMOTE, RemoteClient, new_remote
from tests.support.videos.video_site import files_in

FILES = "here.files"
LIMIT = 1 << 20


class Shelf(RemoteWork):
    def __init__(self, root: Path) -> None:
        self.root = root
        self.orders: list[BaseException] = []
        """Raised by the next order, if there is one."""

    def order(self, job: RemoteJob) -> dict[str, Any]:
        if self.orders:
            raise self.orders.pop()
        return {"greeting": f"hello {job.worker.name}", "attempt": job.attempt}

    def source(self, job: RemoteJob) -> SourceFile | None:
        path = self.root / "source.bin"
        if not path.exists():
            return None
        content = path.read_bytes()
        return SourceFile(path, path.name, len(content), sha256_of(content))

    def staging(self) -> Path:
        return self.root / "staging"

    @property
    def public(self) -> Path:
        return self.root / "public"

    def file_limit(self, job: RemoteJob, name: str) -> int | None:
        return LIMIT if name in ("a.txt", "b/c.txt", "last.txt") else None

    def check(self, job: RemoteJob, name: str, path: Path, staged: Path) -> None:
        if path.read_bytes().startswith(b"bad"):
            raise FileRefused(f"{name} is bad")

    def stored(self, job: RemoteJob, name: str, staged: Path) -> None:
        if name == "last.txt":
            self.public.mkdir(parents=True, exist_ok=True)
            for path in [path for path in staged.rglob("*.txt") if ".arriving" not in path.parts]:
                path.replace(self.public / path.name)

    def finish(self, job: RemoteJob, result: Any) -> None:
        if not (self.public / "last.txt").exists():
            raise FileRefused("last.txt has not come")


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def claim_files(far: RemoteClient, **payload: Any) -> dict[str, Any]:
    enqueue(FILES, **payload)
    (job,) = far.claim(types=[FILES])
    return job


def archive(*entries: tuple[str, bytes] | tarfile.TarInfo, mode: str = "w:gz") -> bytes:
    """Files by name, or headers as they are."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as tar:  # type: ignore[call-overload]
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
            else:
                name, content = entry
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


@pytest.fixture
def shelf(declare: Declare, tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path / "shelf")
    shelf.root.mkdir()
    declare(REMOTE, remote=True)
    declare(FILES, remote=shelf)
    return shelf


@pytest.fixture
def far(shelf: Shelf) -> RemoteClient:
    return new_remote("far-away")


@pytest.fixture
def job(far: RemoteClient) -> dict[str, Any]:
    return claim_files(far)


def everything(shelf: Shelf) -> dict[str, bytes]:
    return files_in(shelf.root)
