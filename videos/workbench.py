"""What a handler works with: the transcode, its plan, the source and the folder; and errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jobs import JobContext, PermanentFailure, database
from jobs.lifecycle.leases import lock_leased
from jobs.worker.context import DRAINING
from videos import conf, storage
from videos.media import ffmpeg
from videos.media.exceptions import FfmpegFailed, FfmpegStopped, LookFailed, NotPlayable
from videos.media.plan import EncodePlan
from videos.models import QualityStatus, Transcode

WORTH_FINISHING = 20.0
"""Seconds of work that a draining worker still does before it gives the job back."""
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class DiskFull(Exception):
    def __init__(self, folder: Path) -> None:
        super().__init__(f"There is no space left on the disk of {folder}. Make room; then retry the video.")


@dataclass(frozen=True)
class Workbench:
    """One job of one transcode."""

    job: JobContext
    transcode: Transcode
    source: Path
    generation: Path

    @property
    def plan(self) -> EncodePlan:
        if self.transcode.plan is None:
            raise PermanentFailure("The transcode has no plan; its probe has not been completed.")
        try:
            return EncodePlan.from_json(self.transcode.plan)
        except ValueError as error:
            raise PermanentFailure(
                f"The plan cannot be used here: {error}. Retranscode the video."
            ) from error

    @property
    def ffmpeg(self) -> Path:
        return ffmpeg.binary(conf.current().ffmpeg)

    def given_up(self) -> set[str]:
        """Qualities that have failed and without which the transcode goes on."""
        failed = self.transcode.qualities.filter(status=QualityStatus.FAILED)
        return {
            name for name in failed.values_list("quality", flat=True) if not conf.current().is_critical(name)
        }

    def qualities(self) -> tuple[str, ...]:
        """The qualities to publish, largest first."""
        given_up = self.given_up()
        return tuple(r.name for r in self.plan.renditions if r.name not in given_up)

    def note_failed_quality(self, quality: str, error: str) -> None:
        """Bound to the lease: a worker that has lost the job says nothing."""
        with database.atomic():
            lock_leased(self.job.lease)
            self.transcode.qualities.filter(quality=quality).update(
                status=QualityStatus.FAILED, error_message=error, completed_at=None
            )

    def refuse_changed_source(self) -> None:
        """What was read of a file that is no longer the one that was uploaded is not kept; raises PermanentFailure."""
        uploaded = self.transcode.video.source_bytes
        with contextlib.suppress(FileNotFoundError):  # it was removed; what was open stayed whole
            size = self.source.stat().st_size
            if size != uploaded:
                raise PermanentFailure(
                    f"The source has changed: {self.source} has {size:,} bytes, and had {uploaded:,} when it was "
                    "uploaded. Put it back as it was; then retry the video."
                )

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
        reason = self._job.stop_reason
        return bool(reason) and (reason != DRAINING or self._seconds_left() > WORTH_FINISHING)

    def _seconds_left(self) -> float:
        elapsed = time.monotonic() - self._started
        return elapsed * (1 - self._share) / self._share if self._share else float("inf")


def open_bench(job: JobContext, transcode_id: int) -> Workbench:
    transcode = Transcode.objects.select_related("video").filter(pk=transcode_id).first()
    if transcode is None:
        raise PermanentFailure("The video was purged; there is nothing left to do.")
    if transcode.files_removed_at is not None:
        raise PermanentFailure(
            f"The files of generation {transcode.number} have been removed; retranscode the video."
        )
    return Workbench(job, transcode, storage.source(transcode.video), storage.generation(transcode))


@contextlib.contextmanager
def clear_errors(bench: Workbench) -> Iterator[None]:
    """Errors of the media layer, turned into what the queue understands and people can act on."""
    if not bench.source.is_file():
        raise _source_gone(bench)
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
            raise DiskFull(storage.root()) from error
        raise
    except FfmpegFailed as error:
        if "No space left on device" in error.stderr:
            raise DiskFull(storage.root()) from error
        if not bench.source.is_file():
            raise _source_gone(bench) from error
        bench.refuse_changed_source()
        raise


def _source_gone(bench: Workbench) -> PermanentFailure:
    return PermanentFailure(
        f"The source is gone: there is no file {bench.source}. Put it back; then retry the video."
    )
