"""A server with one source and a shelf for files, as the worker API describes them; it can be made to misbehave."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from jobs.lifecycle import ClaimedJob, Lease, ProgressReport
from jobs.worker.context import JobContext
from jobs.worker.over_http.connection import Access
from jobs.worker.site import Site

KEY = "k" * 43
TOKEN = 7


class StandIn(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, content: bytes = b"") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.sha256 = hashlib.sha256(content).hexdigest()
        self.order: dict[str, Any] = {"done": False, "order": {"height": 360}}
        self.asked: list[str] = []
        """`GET source bytes=5-` and so on."""
        self.files: dict[str, bytes] = {}
        self.cut_after: list[int] = []
        """So many bytes of each of the next answers with the source, and the connection is closed."""
        self.refuse: list[tuple[int, str]] = []
        """Status and code of the next answers to a PUT or GET."""
        self.pause = 0.0
        """Seconds after each piece of the source, and before the answer to a PUT."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def access(self) -> Access:
        return Access(f"http://127.0.0.1:{self.server_address[1]}/api", KEY)

    def site(self, folder: Path, *, cache_bytes: int = 1 << 30, job_id: str = "01JOB") -> OneJob:
        return OneJob(self, folder, cache_bytes, job_id)

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class OneJob:
    """A running job of this server, with what it has reported."""

    def __init__(self, server: StandIn, folder: Path, cache_bytes: int, job_id: str) -> None:
        self.reports: list[ProgressReport] = []
        claimed = ClaimedJob(Lease(job_id, TOKEN, "worker"), "remote.copy", {}, 1, 3, "", 5, "", None)
        self.context = JobContext(claimed, report=self.reports.append)
        sources = folder / "sources"
        sources.mkdir(parents=True, exist_ok=True)
        self.site = Site(
            self.context,
            server.access,
            folder=folder / "run" / job_id,
            sources=sources,
            cache_bytes=cache_bytes,
        )


class _Handler(http.server.BaseHTTPRequestHandler):
    server: StandIn
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        what = self._admit()
        if what == "order":
            source = {"name": "film.MP4", "bytes": len(self.server.content), "sha256": self.server.sha256}
            self._say(200, {"source": source, **self.server.order})
        elif what == "source":
            self._send_source()

    def _send_source(self) -> None:
        content, start = self.server.content, 0
        given = self.headers.get("Range", "")
        whole = not given or self.headers.get("If-Range") != f'"{self.server.sha256}"'
        if not whole:
            start = int(given.removeprefix("bytes=").removesuffix("-"))
        self.send_response(200 if whole else 206)
        self.send_header("Content-Length", str(len(content) - start))
        if not whole:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        end = start + self.server.cut_after.pop(0) if self.server.cut_after else len(content)
        for at in range(start, end, 65536):
            self.wfile.write(content[at : min(end, at + 65536)])
            time.sleep(self.server.pause)
        if end < len(content):
            self.close_connection = True

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        what = self._admit()
        if what is None:
            return
        time.sleep(self.server.pause)
        digest = hashlib.sha256(body).hexdigest()
        if digest != self.headers["X-Content-SHA256"]:
            self._say(422, {"error": "invalid", "detail": "wrong checksum"})
            return
        name = unquote(what.removeprefix("files/"))
        self.server.files[name] = body
        self._say(200, {"name": name, "bytes": len(body), "sha256": digest})

    def _admit(self) -> str | None:
        what = self.path.split("/", 5)[5]
        self.server.asked.append(f"{self.command} {what} {self.headers.get('Range', '')}".strip())
        if self.headers["Authorization"] != f"Bearer {KEY}" or self.headers["X-Lease-Token"] != str(TOKEN):
            self._say(401, {"error": "key_unknown", "detail": "This key belongs to nobody."})
            return None
        if self.server.refuse:
            status, code = self.server.refuse.pop(0)
            self._say(status, {"error": code, "detail": f"refused with {code}"})
            return None
        return what

    def _say(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 503:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass
