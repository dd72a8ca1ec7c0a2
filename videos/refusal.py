"""How a request is refused over HTTP: always {"error": code, "detail": text}, with the status that fits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.http import JsonResponse

from jobs.exceptions import QueueFull, RateLimited
from videos import intake
from videos.exceptions import NotNow, UploadRefused


class Refusal(Exception):
    def __init__(self, status: int, code: str, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(self) -> JsonResponse:
        return JsonResponse(
            {"error": self.code, "detail": str(self)}, status=self.status, headers=self.headers
        )


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
        raise Refusal(429, "busy", str(refusal), Retry_After=str(refusal.retry_after)) from refusal
    except OSError as error:
        if intake.is_disk_full(error):
            raise Refusal(507, "no_room", intake.NO_ROOM) from error
        raise
