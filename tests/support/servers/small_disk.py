"""A small file system of its own for the videos, so that a disk can be full in earnest."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def resize(videos_root: Path) -> Iterator[Callable[[str], None]]:
    """`resize("2m")` gives VIDEOS["ROOT"] a file system of this size, or changes its size."""
    videos_root.mkdir()
    if os.geteuid() != 0 or subprocess.run(_mount(videos_root, "size=16k"), capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")

    def resize(size: str) -> None:
        subprocess.run(_mount(videos_root, f"remount,size={size}"), check=True)

    yield resize
    subprocess.run(["umount", "--lazy", videos_root], check=True)


def _mount(folder: Path, options: str) -> list[str | Path]:
    return ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
