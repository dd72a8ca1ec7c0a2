"""The Chromium of this machine: found, not downloaded."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--autoplay-policy=no-user-gesture-required",
)
MISSING = (
    f"no Chromium was found ({', '.join(NAMES)} on the PATH, or the path in SPROCKET_CHROMIUM); "
    "Debian has it in the package chromium"
)


def find() -> str | None:
    """Its path: what SPROCKET_CHROMIUM names, else the first of NAMES that is installed."""
    if given := os.environ.get("SPROCKET_CHROMIUM"):
        return shutil.which(given)
    return next((path for name in NAMES if (path := shutil.which(name))), None)
