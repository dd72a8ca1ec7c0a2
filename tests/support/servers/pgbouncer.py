"""A real PgBouncer in transaction mode before the test database: every transaction may get another session."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.processes import free_port, wait_until

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")

CONFIGURATION = """
[databases]
* = host={host} {port} user={user} {password}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 200
server_reset_query = DISCARD ALL
server_reset_query_always = 0
"""
MISSING = "there is no pgbouncer (Debian: apt-get install pgbouncer)"


class PgBouncer:
    """Few sessions for many clients, so that none keeps one for itself."""

    def __init__(self, database_url: str, *, sessions: int = 3) -> None:
        parts = urlsplit(database_url)
        self._name = parts.path.lstrip("/")
        self._port = free_port()
        host = parts.hostname or unquote(parse_qs(parts.query)["host"][0])
        text = CONFIGURATION.format(
            host=host,
            port=f"port={parts.port}" if parts.port else "",
            user=parts.username,
            password=f"password={parts.password}" if parts.password else "",
            listen=self._port,
            sessions=sessions,
        )
        self._folder = tempfile.TemporaryDirectory(prefix="sprocket-pgbouncer-")
        folder = Path(self._folder.name)
        folder.chmod(0o755)
        configuration = folder / "pgbouncer.ini"
        configuration.write_text(text)
        self.log = folder / "log"
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [*_as_somebody(Path(host)), str(PROGRAM), str(configuration)],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._listens)

    def _listens(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()
        return "listening on 127.0.0.1" in self.log.read_text()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/{self._name}"

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()


def _as_somebody(sockets: Path) -> list[str]:
    """It refuses to run as root: then as the user who owns the server's sockets, which nobody else may reach."""
    if os.getuid() != 0:
        return []
    user = sockets.stat().st_uid if sockets.is_dir() else 65534
    return ["setpriv", f"--reuid={user}", "--clear-groups"]
