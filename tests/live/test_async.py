"""A page of an event loop that goes away in the very moment in which there is something to tell it."""

from __future__ import annotations

import asyncio

import pytest

from jobs.live.hub import Hub
from jobs.live.streaming import AsyncStream


class QuietHub(Hub):
    """Its pages come and go; nobody asks a database for them."""

    def join(self, mailbox: object) -> None:
        self._mailboxes.add(mailbox)  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", range(6))
def test_a_page_that_leaves_while_it_is_told_something_is_gone(steps: int) -> None:
    """By wait_for() of Python 3.11 it took the news, forgot that the page had gone, and served it for 15 minutes."""
    hub = QuietHub()

    async def leave() -> None:
        stream = AsyncStream(hub, [], "")
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.01)
        stream._something.set()
        for _ in range(steps):  # of the event loop, between the news and the departure
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(waiting), 5)

    asyncio.run(leave())
    assert hub.pages == 0
