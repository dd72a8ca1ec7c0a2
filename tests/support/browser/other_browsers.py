"""Firefox and WebKit, as far as the tests need them: open a page, and evaluate JavaScript in it.

Playwright drives builds of its own only. Debian's Firefox speaks WebDriver BiDi by itself; for WebKit (whose HLS is
native, as Safari's is) there is Debian's webkit2gtk-driver.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import aiohttp
import requests

from tests.support.processes import free_port

T = TypeVar("T")
PATIENCE = 60.0
PREFERENCES = """\
user_pref("media.autoplay.default", 0);
user_pref("media.autoplay.blocking_policy", 0);
user_pref("remote.active-protocols", 1);
"""


class Window(Protocol):
    def open(self, url: str) -> None: ...

    def evaluate(self, expression: str) -> Any: ...


def wait_for(window: Window, expression: str) -> Any:
    """Until the expression is true; its value."""
    deadline = time.monotonic() + PATIENCE
    while not (value := window.evaluate(expression)):
        assert time.monotonic() < deadline, f"{expression} is {value}; {window.evaluate(_STATE)}"
        time.sleep(0.1)
    return value


_STATE = """JSON.stringify([...document.querySelectorAll('video')].map(v => ({time: v.currentTime, ready: v.readyState,
    network: v.networkState, paused: v.paused, error: v.error && v.error.message})))"""


@contextlib.contextmanager
def _running(*command: str, port: int, **environment: str) -> Iterator[None]:
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                requests.get(f"http://127.0.0.1:{port}/", timeout=5)
                break
            except requests.ConnectionError:
                assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
                assert time.monotonic() < deadline, f"{command[0]} does not answer"
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


# -- Firefox -----------------------------------------------------------------------------------------------------------


class Firefox:
    def __init__(self, loop: asyncio.AbstractEventLoop, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._loop, self._socket = loop, socket
        self._numbers = itertools.count(1)
        self._call("session.new", capabilities={})
        self._window = self._call("browsingContext.getTree")["contexts"][0]["context"]

    def open(self, url: str) -> None:
        self._call("browsingContext.navigate", context=self._window, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        answer = self._call(
            "script.evaluate",
            expression=expression,
            target={"context": self._window},
            awaitPromise=True,
            userActivation=True,
        )
        assert answer["type"] == "success", answer
        return answer["result"].get("value")

    def _call(self, method: str, **parameters: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(self._exchange(method, parameters), PATIENCE))

    async def _exchange(self, method: str, parameters: dict[str, Any]) -> Any:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            answer = await self._socket.receive_json()
            if answer.get("id") == number:
                assert answer["type"] == "success", answer
                return answer["result"]


@contextlib.contextmanager
def firefox(profile: Path) -> Iterator[Firefox]:
    program = find("firefox-esr", "firefox")
    assert program is not None
    (profile / "user.js").write_text(PREFERENCES)
    port = free_port()
    loop = asyncio.new_event_loop()

    def wait(action: Awaitable[T]) -> T:
        return loop.run_until_complete(action)

    async def connect() -> tuple[aiohttp.ClientSession, aiohttp.ClientWebSocketResponse]:
        session = aiohttp.ClientSession()
        return session, await session.ws_connect(f"ws://127.0.0.1:{port}/session", max_msg_size=0)

    with _running(
        program, "--headless", "--profile", str(profile), f"--remote-debugging-port={port}", port=port
    ):
        session, socket = wait(connect())
        try:
            yield Firefox(loop, socket)
        finally:
            wait(session.close())
            loop.close()


# -- WebKit ------------------------------------------------------------------------------------------------------------


class WebKit:
    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/session"
        answer = self._post("", {"capabilities": {"alwaysMatch": {}}})
        self._url += f"/{answer['sessionId']}"

    def open(self, url: str) -> None:
        self._post("/url", {"url": url})

    def evaluate(self, expression: str) -> Any:
        return self._post("/execute/sync", {"script": f"return {expression}", "args": []})

    def close(self) -> None:
        requests.delete(self._url, timeout=PATIENCE)

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        answer = requests.post(self._url + path, json=body, timeout=PATIENCE)
        assert answer.ok, answer.text
        return answer.json()["value"]


@contextlib.contextmanager
def webkit() -> Iterator[WebKit]:
    """On a screen of its own, since it has no headless mode. Its HLS is off unless it is asked for."""
    program, screen = find("WebKitWebDriver"), find("xvfb-run")
    assert program is not None
    assert screen is not None
    port = free_port()
    with _running(
        screen,
        "--auto-servernum",
        program,
        f"--port={port}",
        port=port,
        WEBKIT_GST_ENABLE_HLS_SUPPORT="1",
    ):
        window = WebKit(port)
        try:
            yield window
        finally:
            window.close()


def find(*names: str) -> str | None:
    return next((path for name in names if (path := shutil.which(name))), None)
