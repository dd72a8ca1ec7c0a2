"""Archives of files from strangers: all of it counts or nothing, quickly, in little memory."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.remote.remote_client import RemoteClient, good, refused
from tests.support.remote.remote_types import LIMIT, Shelf, archive, everything, sha256_of
from tests.support.remote.remote_types import far as far  # fixtures
from tests.support.remote.remote_types import job as job
from tests.support.remote.remote_types import shelf as shelf
from tests.support.videos.video_site import files_in

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]


def special(name: str, kind: bytes, target: str = "", size: int = 0) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, target, size
    return entry


def raw(header: tarfile.TarInfo) -> bytes:
    """A header as it is, whatever it says of its content."""
    return gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(1024))


def extended(records: bytes) -> bytes:
    """A file with an extended header in front."""
    header = special("a.txt.header", tarfile.XHDTYPE, size=len(records))
    file = special("a.txt", tarfile.REGTYPE, size=3)
    packed = header.tobuf(tarfile.USTAR_FORMAT) + records.ljust(-(-len(records) // 512) * 512, b"\0")
    return gzip.compress(packed + file.tobuf(tarfile.USTAR_FORMAT) + b"one".ljust(512, b"\0") + bytes(1024))


def test_the_files_of_an_archive_count_together(far: RemoteClient, shelf: Shelf, job: dict[str, Any]) -> None:
    packed = archive(("last.txt", b"."), ("a.txt", b"one"), ("b/c.txt", b"x" * LIMIT))
    for _ in range(2):
        answer = good(far.archive(job, packed))
        assert answer["files"][1] == {"name": "a.txt", "bytes": 3, "sha256": sha256_of(b"one")}
    assert set(files_in(shelf.public)) == {"a.txt", "c.txt", "last.txt"}
    good(far.report("complete", job))


def test_what_common_programs_pack_is_read(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any], tmp_path: Any
) -> None:
    (tmp_path / "a.txt").write_bytes(b"one")
    for way in (["--format=gnu"], ["--format=pax"], ["--format=ustar"]):
        packed = subprocess.run(
            ["tar", *way, "-cz", "-C", tmp_path, "a.txt"], check=True, capture_output=True
        ).stdout
        assert [file["name"] for file in good(far.archive(job, packed))["files"]] == ["a.txt"]
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        tar.add(tmp_path / "a.txt", "a.txt")  # with the exact time in an extended header
    assert good(far.archive(job, made.getvalue()))["files"][0]["sha256"] == sha256_of(b"one")


ONE = ("a.txt", b"one")
PLAIN = archive(ONE, mode="w")
HOSTILE: dict[str, Callable[[], bytes]] = {
    "traversal": lambda: archive(ONE, ("../evil", b"x")),
    "traversal inside": lambda: archive(ONE, ("b/../../evil", b"x")),
    "absolute": lambda: archive(ONE, ("/tmp/evil", b"x")),
    "backslash": lambda: archive(ONE, ("..\\evil", b"x")),
    "another name": lambda: archive(ONE, ("index.html", b"x")),
    "no name": lambda: archive(ONE, special("", tarfile.REGTYPE)),
    "hidden": lambda: archive(ONE, (".arriving/evil", b"x")),
    "look-alike": lambda: archive(ONE, ("а.txt", b"x")),
    "symlink": lambda: archive(ONE, special("b/c.txt", tarfile.SYMTYPE, "/etc/passwd")),
    "symlink to a folder": lambda: archive(special("b", tarfile.SYMTYPE, "/tmp"), ("b/c.txt", b"x")),
    "hard link": lambda: archive(ONE, special("b/c.txt", tarfile.LNKTYPE, "/etc/passwd")),
    "hard link inside": lambda: archive(ONE, special("b/c.txt", tarfile.LNKTYPE, "a.txt")),
    "character device": lambda: archive(ONE, special("b/c.txt", tarfile.CHRTYPE)),
    "block device": lambda: archive(ONE, special("b/c.txt", tarfile.BLKTYPE)),
    "fifo": lambda: archive(ONE, special("b/c.txt", tarfile.FIFOTYPE)),
    "folder": lambda: archive(ONE, special("b", tarfile.DIRTYPE)),
    "sparse": lambda: archive(ONE, special("b/c.txt", tarfile.GNUTYPE_SPARSE)),
    "volume": lambda: archive(ONE, special("b/c.txt", b"V")),
    "twice": lambda: archive(ONE, ("b/c.txt", b"x"), ONE),
    "bad content": lambda: archive(ONE, ("b/c.txt", b"bad")),
    "not gzip": lambda: b"this is text, and no archive",
    "a tar without gzip": lambda: PLAIN,
    "gzip without a tar": lambda: gzip.compress(b"this is text" * 1000),
    "empty": lambda: gzip.compress(b""),
    "no files": lambda: archive(),
    "cut off": lambda: archive(ONE, ("b/c.txt", bytes(range(256)) * 1000))[:-500],
    "cut off inside": lambda: gzip.compress(PLAIN[:700]),
    "garbage behind": lambda: archive(ONE) + b"garbage",
    "more behind its end": lambda: gzip.compress(PLAIN + PLAIN),
    "wrong checksum of gzip": lambda: archive(ONE)[:-8] + bytes(8),
    "wrong checksum of tar": lambda: gzip.compress(b"b" + PLAIN[1:]),
    "negative size": lambda: raw(special("a.txt", tarfile.REGTYPE, size=-512)),
    "long name of GNU": lambda: archive(ONE, special("x" * 5000, tarfile.REGTYPE)),
    "global header": lambda: archive(ONE, special("x", tarfile.XGLTYPE)),
    "a path in a header": lambda: extended(b"20 path=../evil.txt\n"),
    "a size in a header": lambda: extended(b"20 size=99999999999\n"),
    "a sparse file in a header": lambda: extended(b"22 GNU.sparse.major=1\n"),
    "a large header": lambda: extended(b"x" * 100_000),
    "a long name of gzip": lambda: b"\x1f\x8b\x08\x08\0\0\0\0\0\xff" + b"x" * 3_000_000,
    "many headers": lambda: gzip.compress(special("x", tarfile.XHDTYPE).tobuf() * 100_000),
    "empty gzips": lambda: gzip.compress(b"") * 150_000,
    "100,000 entries": lambda: gzip.compress(special("a.txt", tarfile.REGTYPE).tobuf() * 100_000),
    "100,000 names": lambda: gzip.compress(
        b"".join(special(f"f{n}", b"0").tobuf() for n in range(100_000)), 1
    ),
    "a bomb behind its end": lambda: gzip.compress(PLAIN + bytes(200_000_000), 1),
}
TOO_LARGE: dict[str, Callable[[], bytes]] = {
    "beyond the limit": lambda: archive(("a.txt", bytes(LIMIT + 1))),
    "2^62 bytes": lambda: raw(special("a.txt", tarfile.REGTYPE, size=2**62)),
}


@pytest.mark.parametrize("name", HOSTILE | TOO_LARGE)
def test_a_hostile_archive_is_refused_whole(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any], name: str
) -> None:
    good(far.put(job, "a.txt", b"before"))
    before = everything(shelf)
    outside = set(shelf.root.parent.rglob("*"))
    packed = (HOSTILE | TOO_LARGE)[name]()
    answer = far.archive(job, packed)
    assert answer.status_code == (413 if name in TOO_LARGE else answer.status_code)
    assert answer.status_code in (413, 422)
    refused(answer, answer.status_code)
    assert everything(shelf) == before
    assert set(shelf.root.parent.rglob("*")) == outside


def test_a_bomb_in_files_of_allowed_size_is_refused(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shelf, "file_limit", lambda *args: 1 << 40)
    refused(far.archive(job, archive(("a.txt", bytes(50_000_000)))), 413, "too_large")
    assert everything(shelf) == {}


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"sha256": "0" * 64}, 422),
        ({"CONTENT_LENGTH": ""}, 411),
        ({"CONTENT_LENGTH": str(10**12)}, 413),
        ({"CONTENT_LENGTH": "10"}, 422),
        ({"CONTENT_LENGTH": "1000000"}, 422),
    ],
)
def test_an_archive_that_is_not_what_was_announced_leaves_nothing(
    far: RemoteClient, shelf: Shelf, job: dict[str, Any], more: dict[str, str], status: int
) -> None:
    refused(far.archive(job, archive(ONE), **more), status)
    assert everything(shelf) == {}


MEASURE = """
import resource, sys
from jobs import archives
from jobs.remote_work import FileRefused

packed = open(sys.argv[1], "rb")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    for member in archives.members(packed, limit_of=lambda name: 1 << 62):
        for block in member.blocks:
            pass
    print("taken")
except FileRefused as refusal:
    print("refused", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("kind", ["zeros", "a header that is as large", "a file that is as large"])
def test_a_bomb_takes_little_memory(tmp_path: Any, kind: str) -> None:
    """300 MB in a few hundred kilobytes, of a file that says it has more."""
    size = 10 * 10**9
    entry = special("a.txt", tarfile.XHDTYPE if "header" in kind else tarfile.REGTYPE, size=size)
    bomb = tmp_path / "bomb.tar.gz"
    squeeze = zlib.compressobj(1, wbits=31)
    with bomb.open("wb") as file:
        if kind != "zeros":
            file.write(squeeze.compress(entry.tobuf(tarfile.GNU_FORMAT)))
        block = bytes(1 << 20)
        for _ in range(300):
            file.write(squeeze.compress(block))
        file.write(squeeze.flush())
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, bomb], cwd=ROOT, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    word, kilobytes = done.stdout.split()
    assert word == "refused"
    assert int(kilobytes) < 64 * 1024
