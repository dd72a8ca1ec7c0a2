"""Take over what an earlier generation has of a job, so that a retry encodes only what is missing.

Only where the plan is the same to the letter (so the bytes would be, too) and every file is as it was written. Files
are linked, not copied: nothing in a generation is ever changed in place, and each is removed without the other.
"""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

from videos import manifests, storage
from videos.manifests import Manifest
from videos.workbench import Workbench


def take_over(bench: Workbench, name: str) -> Manifest | None:
    """The manifest of this name, with its files, from the generation that this one is based on."""
    number = bench.transcode.based_on
    if number is None:
        return None
    older = storage.generation_folder(bench.transcode.video_id, number)
    manifest = manifests.intact(older, name, plan=bench.plan.digest(), parts=())
    if manifest is None:
        return None
    for file in manifest.files:
        _link(older / file.name, bench.generation / file.name)
    manifests.write(bench.generation, name, manifest)
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
