"""Where hls.js is, if the site has it: as static files named hls.js/hls.min.js and hls.js/hls.worker.js.

`make` puts them there with npm. A host site that wants them runs `npm install hls.js` and names the folder:
STATICFILES_DIRS = [("hls.js", "…/node_modules/hls.js/dist")].
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import staticfiles_storage
from django.templatetags.static import static

SCRIPT, WORKER = "hls.js/hls.min.js", "hls.js/hls.worker.js"


@dataclass(frozen=True)
class PlayerScript:
    """Addresses; empty: not installed."""

    script: str = ""
    worker: str = ""


@functools.cache
def find() -> PlayerScript:
    """Asked once per process: static files do not come and go while a site runs."""
    return PlayerScript(*(static(name) if _exists(name) else "" for name in (SCRIPT, WORKER)))


def _exists(name: str) -> bool:
    return finders.find(name) is not None or _is_collected(name)


def _is_collected(name: str) -> bool:
    try:
        return staticfiles_storage.exists(name)
    except (
        Exception
    ):  # no STATIC_ROOT, or a storage elsewhere that cannot be asked: then it is not there for us
        return False
