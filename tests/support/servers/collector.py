"""A real collector of OpenTelemetry's (Rotel, from its wheel): it takes spans by HTTP and writes down what arrived."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.support.processes import free_port, wait_until

LINES = {
    "trace": "Trace ID",
    "parent": "Parent ID",
    "id": "ID",
    "name": "Name",
    "kind": "Kind",
    "status": "Status code",
    "message": "Status message",
}
MISSING = "there is no collector that runs here (the wheel rotel and the library of Python, libpython3.11)"


@dataclass(frozen=True)
class Span:
    service: str
    trace: str
    parent: str
    id: str
    name: str
    kind: str
    status: str
    message: str


def program() -> Path | None:
    """None where there is no wheel for this machine, or where its program lacks the library of its Python."""
    spec = find_spec("rotel")
    if spec is None or spec.origin is None:
        return None
    agent = Path(spec.origin).with_name("rotel-agent")
    works = agent.exists() and subprocess.run([agent, "--version"], capture_output=True).returncode == 0
    return agent if works else None


class Collector:
    def __init__(self, agent: Path, folder: Path) -> None:
        self._port = free_port()
        self._log = folder / "collector.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(agent, "start", "--exporter", "blackhole"),
                    *("--debug-log", "traces", "--debug-log-verbosity", "detailed"),
                    *("--otlp-http-endpoint", f"127.0.0.1:{self._port}"),
                    *("--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._listens)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def spans(self) -> list[Span]:
        found, service = [], ""
        for block in re.split(r"(?m)^(?=ResourceSpans #|Span #)", self._log.read_text(errors="replace")):
            if block.startswith("ResourceSpans"):
                told = re.search(r"-> service\.name: Str\((.*)\)", block)
                service = told[1] if told else ""
            elif block.startswith("Span"):
                fields = {
                    field: re.search(rf"(?m)^ *{line} *: ?(.*)$", block) for field, line in LINES.items()
                }
                found.append(
                    Span(service, **{field: told[1] if told else "" for field, told in fields.items()})
                )
        return found

    def pause(self) -> None:
        """It takes connections and never answers."""
        self._process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _listens(self) -> bool:
        assert self._process.poll() is None, self._log.read_text(errors="replace")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0
