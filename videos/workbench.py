"""The bench of a worker that has the site's database and files: the transcode, its plan, the source, the folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from jobs import JobContext, PermanentFailure, database
from jobs.lifecycle.leases import lock_leased
from videos import conf, depot, keeping, manifests, reusing, storage, toolchains
from videos.bench import Bench, DiskFull, Watch, clear_errors
from videos.exceptions import PlanUnusable, SourceChanged
from videos.manifests import Manifest
from videos.media.exceptions import MediaError
from videos.media.plan import EncodePlan
from videos.models import QualityStatus, Transcode

__all__ = ["DiskFull", "Watch", "Workbench", "clear_errors", "open_bench"]


@dataclass(frozen=True)
class Workbench(Bench):
    job: JobContext
    transcode: Transcode
    generation: Path

    @property
    def source(self) -> Path:
        """On this machine: fetched, if need be."""
        return keeping.fetch_source(self.transcode.video, go_on=self._still("fetching the source"))

    def has_source(self) -> bool:
        path = storage.source(self.transcode.video)
        return path.is_file() or depot.size_of(path) is not None

    @property
    def plan(self) -> EncodePlan:
        if self.transcode.plan is None:
            raise PlanUnusable("The transcode has no plan; its probe has not been completed.")
        try:
            return EncodePlan.from_json(self.transcode.plan)
        except ValueError as error:
            raise PlanUnusable(f"The plan cannot be used here: {error}. Retranscode the video.") from error

    def refuse_changed_source(self) -> None:
        uploaded = self.transcode.video.source_bytes
        with contextlib.suppress(FileNotFoundError):  # it was removed; what was open stayed whole
            source = storage.source(self.transcode.video)
            size = source.stat().st_size
            if size != uploaded:
                raise SourceChanged(source, size=size, uploaded=uploaded)

    def given_up(self) -> set[str]:
        """Qualities that have failed and without which the transcode goes on."""
        failed = self.transcode.qualities.filter(status=QualityStatus.FAILED)
        return {name for name in failed.values_list("quality", flat=True) if not self.is_critical(name)}

    def qualities(self) -> tuple[str, ...]:
        given_up = self.given_up()
        return tuple(r.name for r in self.plan.renditions if r.name not in given_up)

    def is_critical(self, quality: str) -> bool:
        return conf.current().is_critical(quality)

    def found(self, name: str) -> Manifest | None:
        """In this generation, or taken over from the one that it is based on."""
        plan = self.plan.digest()
        there = keeping.intact(self.generation, name, plan=plan, parts=())
        return there or self._unsent(name, plan) or reusing.take_over(self.transcode, name, plan=plan)

    def _unsent(self, name: str, plan: str) -> Manifest | None:
        """What this machine has made, and could not send because the storage was down."""
        if depot.current() is None:
            return None
        made = manifests.intact(self.generation, name, plan=plan, parts=())
        if made is not None:
            self.commit(name, made)
        return made

    def commit(self, name: str, manifest: Manifest) -> None:
        keeping.commit(self.generation, name, manifest, go_on=self._still("storing the files"))

    def gather(self) -> None:
        """Have all that is made of the generation on this machine."""
        keeping.gather(self.generation, go_on=self._still("fetching the files"))

    def _still(self, step: str) -> Callable[[], None]:
        return partial(self.job.still_alive, step=step)

    def note_failed_quality(self, quality: str, error: str) -> None:
        """Bound to the lease: a worker that has lost the job says nothing."""
        with database.atomic():
            lock_leased(self.job.lease)
            self.transcode.qualities.filter(quality=quality).update(
                status=QualityStatus.FAILED, error_message=error, completed_at=None
            )

    def go_elsewhere(self, plan: EncodePlan, *, picture: bool) -> NoReturn:
        toolchains.correct_record(self.job.lease.worker_id)
        toolchains.go_elsewhere(
            self.transcode,
            self.job.lease,
            self.job.type,
            pin=toolchains.pin_of(plan, picture=picture),
            has=toolchains.here().capabilities,
        )

    def give_up_gpu(self, plan: EncodePlan, error: MediaError) -> None:
        if self.job.attempt >= self.job.max_attempts:
            toolchains.give_up_gpu(self.transcode, self.job.lease, plan, error)


def open_bench(job: JobContext, transcode_id: int) -> Workbench:
    transcode = Transcode.objects.select_related("video").filter(pk=transcode_id).first()
    if transcode is None:
        raise PermanentFailure("The video was purged; there is nothing left to do.")
    if transcode.files_removed_at is not None:
        raise PermanentFailure(
            f"The files of generation {transcode.number} have been removed; retranscode the video."
        )
    keeping.tidy()
    return Workbench(job, transcode, storage.generation(transcode))
