"""What encoding works with, wherever it runs: a source, a folder, a plan; and errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NoReturn

from jobs import JobContext, PermanentFailure
from videos import conf
from videos.exceptions import SourceGone
from videos.manifests import Manifest
from videos.media import ffmpeg
from videos.media.exceptions import FfmpegFailed, FfmpegStopped, LookFailed, MediaError, NotPlayable
from videos.media.plan import EncodePlan

WORTH_FINISHING = 20.0
"""Seconds of work that a draining worker still does before it gives the job back."""
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class DiskFull(Exception):
    def __init__(self, folder: Path) -> None:
        super().__init__(f"There is no space left on the disk of {folder}. Make room; then retry the video.")


class Bench(ABC):
    """One job of one transcode."""

    job: JobContext
    generation: Path
    """The folder that files are written to, below the names that they keep."""

    @property
    @abstractmethod
    def source(self) -> Path: ...

    def has_source(self) -> bool:
        return self.source.is_file()

    @property
    @abstractmethod
    def plan(self) -> EncodePlan: ...

    @abstractmethod
    def qualities(self) -> Collection[str]:
        """The qualities to publish, largest first."""

    @abstractmethod
    def is_critical(self, quality: str) -> bool: ...

    @abstractmethod
    def found(self, name: str) -> Manifest | None:
        """What there is already of the files of this manifest, each of them intact."""

    @abstractmethod
    def commit(self, name: str, manifest: Manifest) -> None:
        """From now on these files count."""

    @abstractmethod
    def note_failed_quality(self, quality: str, error: str) -> None:
        """The transcode goes on without it."""

    @abstractmethod
    def go_elsewhere(self, plan: EncodePlan, *, picture: bool) -> NoReturn:
        """The plan is bound to another toolchain than this worker's."""

    @abstractmethod
    def give_up_gpu(self, plan: EncodePlan, error: MediaError) -> None:
        """A chunk has failed on a GPU: on its last attempt the generation is started over without one."""

    def result(self) -> dict[str, Any] | None:
        """What the job's record keeps of the run."""
        return None

    @property
    def ffmpeg(self) -> Path:
        return ffmpeg.binary(conf.current().ffmpeg)

    @abstractmethod
    def refuse_changed_source(self) -> None:
        """What was read of a file that is no longer the one that was uploaded is not kept; raises PermanentFailure."""

    def watch(self, *, total: float, step: str) -> Watch:
        return Watch(self.job, total, step)


class Watch:
    """Follows one run of ffmpeg: passes its progress on, and says when it must stop."""

    def __init__(self, job: JobContext, total: float, step: str) -> None:
        self._job = job
        self._total = total
        self._step = step
        self._started = time.monotonic()
        self._share = 0.0

    def report(self, done: float) -> None:
        self._share = min(0.99, done / self._total) if self._total else 0.0
        self._job.progress(100 * self._share, step=self._step)

    def stop(self) -> bool:
        """At once when the lease is gone. A draining worker finishes what is nearly done and gives back the rest."""
        if self._job.must_stop:
            return True
        return self._job.should_stop and self._seconds_left() > WORTH_FINISHING

    def _seconds_left(self) -> float:
        elapsed = time.monotonic() - self._started
        return elapsed * (1 - self._share) / self._share if self._share else float("inf")


@contextlib.contextmanager
def clear_errors(bench: Bench) -> Iterator[None]:
    """Errors of the media layer, turned into what the queue understands and people can act on."""
    if not bench.has_source():
        raise SourceGone(bench.source)
    bench.refuse_changed_source()
    try:
        yield
    except FfmpegStopped:
        bench.job.raise_if_stopped()
        raise
    except LookFailed:
        raise  # this source was looked at before, so the machine may be to blame: worth another attempt
    except NotPlayable as refusal:
        raise PermanentFailure(refusal.reason) from refusal
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise DiskFull(bench.generation) from error
        raise
    except FfmpegFailed as error:
        if "No space left on device" in error.stderr:
            raise DiskFull(bench.generation) from error
        if not bench.has_source():
            raise SourceGone(bench.source) from error
        bench.refuse_changed_source()
        raise
