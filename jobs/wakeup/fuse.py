"""When Redis is left alone, and for how long. Pure: the time comes in as an argument."""

from __future__ import annotations

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
STRIKES = 3


class Fuse:
    """Blown by one failure, or by several slow answers in a row. Each failed try doubles the pause before the next."""

    def __init__(self) -> None:
        self._strikes = 0
        self._pause = FIRST_PAUSE
        self._retry_at: float | None = None

    @property
    def is_blown(self) -> bool:
        return self._retry_at is not None

    def seconds_left(self, now: float) -> float:
        """Until somebody may try again."""
        return 0.0 if self._retry_at is None else max(0.0, self._retry_at - now)

    def answered(self) -> None:
        """In time: everything is as at the beginning."""
        self._strikes, self._pause, self._retry_at = 0, FIRST_PAUSE, None

    def dawdled(self, now: float) -> None:
        self._strikes += 1
        if self._strikes >= STRIKES:
            self.failed(now)

    def failed(self, now: float) -> None:
        """Those that were on their way when it blew count as the same failure."""
        if self.seconds_left(now) > 0:
            return
        self._retry_at = now + self._pause
        self._pause = min(LONGEST_PAUSE, self._pause * 2)
