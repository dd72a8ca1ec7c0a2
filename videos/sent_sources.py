"""An upload on its way into the storage that keeps the videos (depot.py), before there is a video."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from jobs.ulid import new_ulid
from videos import depot, storage
from videos.depot import StorageDown, StorageRefused
from videos.exceptions import NotNow

log = logging.getLogger("videos")

AWAY = "The storage of the videos cannot take the file now; try again later."


@contextlib.contextmanager
def sent_source(path: Path) -> Iterator[str]:
    """The file as the source of a video to be, whose id it gives; it goes again if there will be none. Before the
    transaction, for it may take long."""
    kept, video_id = depot.current(), new_ulid()
    assert kept is not None
    try:
        kept.put(path, storage.video_folder(video_id) / "source" / path.name)
        yield video_id
    except BaseException as error:
        withdraw(video_id)
        if isinstance(error, StorageDown | StorageRefused):
            log.error("%s", error)
            raise NotNow(AWAY, code="storage_away") from error
        raise


def withdraw(video_id: str) -> None:
    try:
        depot.remove(storage.video_folder(video_id))
    except (StorageDown, StorageRefused) as error:
        log.warning(
            "the upload %s stays in the storage; `manage.py videos orphans` removes it: %s", video_id, error
        )
