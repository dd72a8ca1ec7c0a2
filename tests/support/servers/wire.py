"""A wire between a worker and a server that tests can cut, and that can swallow an answer."""

from __future__ import annotations

import contextlib
import socket
import threading

from tests.support.processes import free_port


class Wire:
    """Listens on a port of its own and passes everything on to `target`, byte by byte."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.port = free_port()
        self._cut = False
        self._swallow: bytes | None = None
        self.swallowed = 0
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Nothing passes any more; who connects is turned away."""
        self._cut = True
        for end in list(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._cut = False

    def swallow_answer_to(self, path: str) -> None:
        """The next request for this path reaches the server; its answer reaches nobody."""
        self._swallow = path.encode()

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self._cut:
                    raise OSError
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            self._open |= {near, far}
            doomed = threading.Event()
            threading.Thread(target=self._pump, args=(near, far, doomed, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, doomed, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, doomed: threading.Event, asks: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if asks and self._swallow and self._swallow in data:
                    self._swallow = None
                    doomed.set()
                if not asks and doomed.is_set():
                    self.swallowed += 1
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
            self._open.discard(end)
