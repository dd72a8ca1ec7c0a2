"""The bench of a worker that has neither the site's database nor its files: an order, and a folder of its own."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from jobs import JobContext, RetryLater
from videos import manifests, toolchains
from videos.bench import Bench
from videos.manifests import Manifest
from videos.media import serial
from videos.media.encode import Written
from videos.media.exceptions import MediaError
from videos.media.plan import EncodePlan

if TYPE_CHECKING:  # it needs httpx, which only remote workers have
    from jobs.worker.site import Site


class FarBench(Bench):
    """Files go to the site one by one, the manifest last: with it they count there."""

    def __init__(self, job: JobContext, site: Site) -> None:
        self.job = job
        self.generation = site.folder
        self._site = site
        known = site.order.get("manifest")
        self._known: Manifest | None = serial.from_json(Manifest, known) if known else None
        self._sent: set[Written] = set(self._known.files) if self._known else set()
        self._failed: dict[str, str] = {}

    @property
    def source(self) -> Path:
        return self._site.source()

    @cached_property
    def plan(self) -> EncodePlan:
        return EncodePlan.from_json(self._site.order["plan"])

    def qualities(self) -> list[str]:
        return list(self._site.order["qualities"])

    def is_critical(self, quality: str) -> bool:
        return quality in self._site.order["critical"]

    def refuse_changed_source(self) -> None:
        """It was compared by its checksum when it was fetched, and nobody else writes it."""

    def found(self, name: str) -> Manifest | None:
        """What the site has already, of an earlier attempt or an earlier generation; the files stay there."""
        return self._known

    def commit(self, name: str, manifest: Manifest) -> None:
        for file in manifest.files:
            if file not in self._sent:
                self._site.send(file.name, self.generation / file.name)
                self._sent.add(file)
        manifests.write(self.generation, name, manifest)
        own = manifests.address(name)
        self._site.send(own, self.generation / own)

    def note_failed_quality(self, quality: str, error: str) -> None:
        self._failed[quality] = error

    def result(self) -> dict[str, Any] | None:
        return {"failed_qualities": self._failed} if self._failed else None

    def go_elsewhere(self, plan: EncodePlan, *, picture: bool) -> NoReturn:
        """The site gives such jobs to nobody, so ffmpeg was replaced under this worker. It starts again with what it
        has; until then others have a chance."""
        pin = toolchains.pin_of(plan, picture=picture)
        raise RetryLater(toolchains.FIRST_WAIT, f"This is for a worker with {pin}.", counted=False)

    def give_up_gpu(self, plan: EncodePlan, error: MediaError) -> None:
        """The site decides, when it hears of the failure."""
