"""A disk that fills up under the files of a remote worker: 507, nothing of them is left, and room lets them come."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from jobs.testing import run_due_jobs
from tests.support.queue.actors import stored
from tests.support.remote.remote_client import REMOTE, RemoteClient, good, new_remote, refused
from tests.support.remote.remote_films import claim
from tests.support.remote.remote_types import Shelf, archive, everything
from tests.support.remote.remote_types import far as far  # fixtures
from tests.support.remote.remote_types import job as job
from tests.support.remote.remote_types import shelf as shelf
from tests.support.servers.small_disk import resize as resize
from tests.support.videos.video_site import accept, clip, files_in
from videos import toolchains

pytestmark = pytest.mark.django_db(transaction=True)


class FullFile(io.BytesIO):
    """Takes no byte."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code

    def write(self, block: Any) -> int:
        raise OSError(self.code, "No space left on device")


@contextmanager
def full_disk(patch: pytest.MonkeyPatch, where: str, code: int, *, after: int = 0) -> Iterator[None]:
    """No room for what is written into a file, or for its name; but for the first ones there is."""
    calls: list[Any] = []
    method = "open" if where == "write" else where
    as_ever = getattr(Path, method)

    def full(path: Path, *args: Any, **kwargs: Any) -> Any:
        calls.append(path)
        if len(calls) <= after:
            return as_ever(path, *args, **kwargs)
        if where == "write":
            as_ever(path, *args, **kwargs).close()
            return FullFile(code)
        raise OSError(code, "No space left on device")

    with patch.context() as inner:
        inner.setattr(Path, method, full)
        yield
    assert len(calls) > after


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("where", ["mkdir", "open", "write", "replace"])
def test_a_full_disk_is_507_and_leaves_nothing(
    far: RemoteClient,
    shelf: Shelf,
    job: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    where: str,
) -> None:
    good(far.put(job, "a.txt", b"one"))
    before = everything(shelf)
    with full_disk(monkeypatch, where, code):
        answer = far.put(job, "b/c.txt", b"two")
    refused(answer, 507, "no_room")
    assert int(answer["Retry-After"]) > 0
    assert everything(shelf) == before
    assert stored(job["job_id"]).status == "processing"
    good(far.put(job, "b/c.txt", b"two"))


@pytest.mark.parametrize("where", ["open", "write"])
def test_a_disk_that_fills_up_in_the_middle_of_an_archive_leaves_nothing(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    packed = archive(("a.txt", b"one"), ("b/c.txt", b"two"))
    with full_disk(monkeypatch, where, errno.ENOSPC, after=1):
        answer = far.archive(job, packed)
    refused(answer, 507, "no_room")
    assert everything(shelf) == {}
    good(far.archive(job, packed))


def test_a_disk_that_is_really_full(resize: Callable[[str], None], declare: Any, videos_root: Path) -> None:
    resize("64m")
    accept(clip(100))
    run_due_jobs(limit=1)
    declare(REMOTE, remote=True)
    encoder = new_remote(capabilities=sorted(toolchains.here().capabilities))
    held = claim(encoder)
    filler = videos_root / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(1 << 16)):
            pass
    before = files_in(videos_root)
    refused(encoder.put(held, "360p/seg_00001.m4s", bytes(1 << 20)), 507, "no_room")
    assert files_in(videos_root) == before
    filler.unlink()
    refused(encoder.put(held, "360p/seg_00001.m4s", bytes(1 << 20)), 422, "refused")
