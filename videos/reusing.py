"""Take over what an earlier generation has of a job, so that a retry encodes only what is missing.

Only where the plan is the same to the letter (so the bytes would be, too) and every file is as it was written. Files
are linked, not copied: nothing in a generation is ever changed in place, and each is removed without the other.
"""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

from videos import depot, keeping, manifests, storage
from videos.manifests import Manifest
from videos.models import Transcode


def take_over(transcode: Transcode, name: str, *, plan: str) -> Manifest | None:
    """The manifest of this name, with its files, from the generation that this one is based on."""
    if transcode.based_on is None:
        return None
    here = storage.generation(transcode)
    older = storage.generation_folder(transcode.video_id, transcode.based_on)
    if depot.current() is not None:
        return keeping.take_over(older, here, name, plan=plan)
    manifest = manifests.intact(older, name, plan=plan, parts=())
    if manifest is None:
        return None
    for file in manifest.files:
        _link(older / file.name, here / file.name)
    manifests.write(here, name, manifest)
    return manifest


def _link(there: Path, here: Path) -> None:
    here.parent.mkdir(parents=True, exist_ok=True)
    temporary = here.with_name(f".{here.name}.{os.getpid()}-{threading.get_ident()}")
    temporary.unlink(missing_ok=True)
    try:
        temporary.hardlink_to(there)
    except OSError:  # not every file system has links
        shutil.copyfile(there, temporary)
    temporary.replace(here)
    temporary.unlink(missing_ok=True)  # a link to the same file is not moved by replacing itself
