"""A shelf of what ffmpeg has made: the same chunk gives the same bytes, so tests encode it once per checkout.

A key is the digest of everything that decides about the bytes: the code of `videos/media`, the build of ffmpeg or the
version of PyAV, the arguments, and the contents of the files that are read. `installed()` puts the shelf
between the pipeline and ffmpeg in the test process; worker processes always run ffmpeg. Tests of encoding itself
(tests/media, tests/acceptance/test_pipeline.py) do without it, and SPROCKET_SHELF=off does without it everywhere.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.support import ROOT
from videos.media import contained, examine, ffmpeg, thumbnails
from videos.media.ffmpeg import Progress, RunLimits
from videos.media.plan import EncodePlan

FOLDER = ROOT / ".cache" / "shelf"
SAID = ".said.json"
MOST_PROGRESS = 200

_real_run = ffmpeg.run
_real_call = contained.call


def is_open() -> bool:
    return os.environ.get("SPROCKET_SHELF") != "off"


@contextmanager
def installed() -> Iterator[None]:
    if is_open():
        ffmpeg.run = run
        contained.call = call
    try:
        yield
    finally:
        ffmpeg.run = _real_run
        contained.call = _real_call


# -- what is kept ----------------------------------------------------------------------------------------------------


def run(
    arguments: Sequence[str],
    *,
    ffmpeg: Path,
    folder: Path,
    reads: Sequence[Path] = (),
    limits: RunLimits = RunLimits(),  # noqa: B008 (frozen)
    on_progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> str:
    """As videos.media.ffmpeg.run; a run that fails is never kept."""
    names = {str(path): f"<{digest_of_file(path)}>" for path in reads if path.is_file()}
    if len(names) < len(reads) or any(folder.iterdir()) or (stop is not None and stop()):
        return _real_run(
            arguments,
            ffmpeg=ffmpeg,
            folder=folder,
            reads=reads,
            limits=limits,
            on_progress=on_progress,
            stop=stop,
        )
    told = [_without(argument, names) for argument in arguments]
    key = digest("run", _code(), _build(ffmpeg), told, asdict(limits))

    def make() -> Any:
        seen: list[Progress] = []

        def note(progress: Progress) -> None:
            seen.append(progress)
            if on_progress is not None:
                on_progress(progress)

        tail = _real_run(
            arguments, ffmpeg=ffmpeg, folder=folder, reads=reads, limits=limits, on_progress=note, stop=stop
        )
        return {"tail": tail, "progress": [asdict(progress) for progress in seen[-MOST_PROGRESS:]]}

    said, was_kept = kept(key, folder, make)
    if was_kept and on_progress is not None:
        for progress in said["progress"]:
            on_progress(Progress(**progress))
    return str(said["tail"])


def call(
    function: Callable[..., Any],
    *arguments: str,
    within: contained.Bounds,
    stop: Callable[[], bool] | None = None,
) -> Any:
    """As videos.media.contained.call."""

    def make() -> Any:
        return _real_call(function, *arguments, within=within, stop=stop)

    if function is examine.answer:
        (path,) = within.read
        if not path.is_file():
            return make()
        key = digest(
            "examine",
            _code(),
            version("av"),
            contained.CHILD,
            digest_of_file(path),
            path.suffix,
            arguments[1],
            within.memory,
        )
        return kept(key, None, make)[0]
    if function is thumbnails.answer:
        plan, folder, made = arguments
        wanted = [Path(folder, name) for name in thumbnails.needed(EncodePlan.from_json(json.loads(plan)))]
        if all(path.is_file() for path in wanted) and not (stop is not None and stop()):
            key = digest(
                "thumbnails",
                _code(),
                version("av"),
                contained.CHILD,
                plan,
                [digest_of_file(path) for path in wanted],
            )
            return kept(key, Path(made), make)[0]
    return make()


def clip(path: Path, told: Sequence[object], make: Callable[[], None]) -> None:
    """A file that a test needs and ffmpeg makes; `told` is everything it is made of."""
    if not is_open():
        make()
        return
    with tempfile.TemporaryDirectory(dir=path.parent) as empty:

        def made() -> None:
            make()
            shutil.copyfile(path, Path(empty) / "clip")

        kept(digest("clip", *told), Path(empty), made)
        (Path(empty) / "clip").replace(path)


# -- the shelf -------------------------------------------------------------------------------------------------------


def kept(key: str, folder: Path | None, make: Callable[[], Any]) -> tuple[Any, bool]:
    """What `make` returned, with the files it wrote in `folder`; and whether that was earlier."""
    place = FOLDER / key[:2] / key
    try:
        said = json.loads((place / SAID).read_text())
    except FileNotFoundError:
        said = make()
        _keep(place, folder, said)
        return said, False
    if folder is not None:
        _copy(place, folder)
    return said, True


def _keep(place: Path, folder: Path | None, said: Any) -> None:
    """Under another name first: whoever finds it finds all of it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=place.parent))
    if folder is not None:
        _copy(folder, new)
    (new / SAID).write_text(json.dumps(said))
    try:
        new.rename(place)
    except OSError:  # another process was quicker, with the same bytes
        shutil.rmtree(new)


def _copy(folder: Path, into: Path) -> None:
    ignore = shutil.ignore_patterns(SAID)
    shutil.copytree(folder, into, dirs_exist_ok=True, ignore=ignore, copy_function=shutil.copyfile)


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def digest_of_file(path: Path) -> str:
    stat = path.stat()
    return _digest_of_file(path, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


@functools.lru_cache(maxsize=1000)
def _digest_of_file(path: Path, *changes: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@functools.cache
def _code() -> str:
    files: Iterable[Path] = sorted((ROOT / "videos" / "media").rglob("*.py"))
    return digest([(path.name, digest_of_file(path)) for path in files])


def _build(binary: Path) -> str:
    return ffmpeg.build_id(binary)


def _without(argument: str, names: dict[str, str]) -> str:
    """Where a file lies does not matter, only what is in it."""
    for path, name in names.items():
        argument = argument.replace(path, name)
    return argument
