"""A web server for remote workers and live pages: the command that starts one, and whether it answers."""

from __future__ import annotations

import shutil
import socket
import sys


class WebServer:
    def __init__(self, settings: str, *, pooled: bool = True) -> None:
        self._settings = settings
        self._pool = ["BENCH_POOL=1"] if pooled else []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def api(self) -> str:
        return f"{self.address}/api"

    def command(self) -> list[str]:
        """Uvicorn with one process, as deploy/ has it, and its pool of connections unless they are to be counted."""
        return [
            shutil.which("env") or "env",
            *(f"DJANGO_SETTINGS_MODULE={self._settings}", *self._pool),
            *(sys.executable, "-m", "uvicorn", "--factory", "django.core.asgi:get_asgi_application"),
            *("--port", str(self._port), "--log-level", "warning"),
        ]

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0
