"""How an upload is refused over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jobs.exceptions import QueueFull, RateLimited
from jobs.refusal import Refusal
from videos import intake
from videos.exceptions import NotNow, UploadRefused


@contextmanager
def refusing_uploads() -> Iterator[None]:
    """What intake, the queue and a full disk refuse, as HTTP says it."""
    try:
        yield
    except NotNow as refusal:
        raise Refusal(507, "no_room", str(refusal)) from refusal
    except UploadRefused as refusal:
        raise Refusal(422, "refused", str(refusal)) from refusal
    except (QueueFull, RateLimited) as refusal:
        wait = {"Retry-After": str(refusal.retry_after)}
        raise Refusal(429, "busy", str(refusal), headers=wait) from refusal
    except OSError as error:
        if intake.is_disk_full(error):
            raise Refusal(507, "no_room", intake.NO_ROOM) from error
        raise
