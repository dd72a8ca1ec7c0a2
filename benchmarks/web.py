"""A web server for the measures about remote workers: the command that starts one, and whether it answers."""

from __future__ import annotations

import shutil
import socket
import sys


class WebServer:
    def __init__(self, settings: str) -> None:
        self._settings = settings
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self._port}/api"

    def command(self) -> list[str]:
        """Uvicorn with one process and a pool of connections, as deploy/ has it."""
        return [
            shutil.which("env") or "env",
            *(f"DJANGO_SETTINGS_MODULE={self._settings}", "BENCH_POOL=1"),
            *(sys.executable, "-m", "uvicorn", "--factory", "django.core.asgi:get_asgi_application"),
            *("--port", str(self._port), "--log-level", "warning"),
        ]

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0
