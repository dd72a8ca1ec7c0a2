"""What wakes the main loop. An Event would do, were it not rung from signal handlers.

A handler runs in the main thread between any two of its steps: also while that thread holds the lock inside
Event.wait or Event.clear, where Event.set would wait for ever. SimpleQueue.put is made to be called there.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue


class Bell:
    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()

    def ring(self) -> None:
        """From any thread or signal handler. Many rings that nobody has waited for yet count as one."""
        if self._rings.empty():
            self._rings.put(None)

    def wait(self, seconds: float) -> bool:
        """Until it rings, or rang since the last wait. False: time is up."""
        try:
            self._rings.get(timeout=seconds)
        except Empty:
            return False
        self.clear()
        return True

    def clear(self) -> None:
        try:
            while True:
                self._rings.get_nowait()
        except Empty:
            pass
