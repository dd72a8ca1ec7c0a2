"""Which process is which: enough to prove, on one host, that a process no longer exists. Never a guess.

A pid alone is reused by the next process; pid and start time are not. A host is a machine since its last boot, and
within it a process namespace, since two containers number their processes independently.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True)
class Host:
    name: str
    boot: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.name}|{self.boot}|{self.namespace}"

    @classmethod
    def parse(cls, text: str) -> Host:
        name, boot, namespace = [*text.split("|"), "", ""][:3]
        return cls(name, boot, namespace)


@lru_cache(maxsize=1)
def this_host() -> Host:
    name = socket.gethostname().replace("|", "-")[:100]
    if sys.platform == "linux":
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return Host(name, boot, str(Path("/proc/self/ns/pid").readlink()))
    return Host(name, "", "")


def start_mark(pid: int) -> str | None:
    """Something about a living process that no later one with its pid shares; None: there is no such process."""
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The name in parentheses may itself contain spaces and parentheses.
        fields = stat.rpartition(")")[2].split()
        state, started = fields[0], fields[19]
        return None if state in "ZX" else started
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, started = shown.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()


def is_gone(pid: int, mark: str) -> bool:
    """On this host: the process that had this pid and start mark no longer exists."""
    return start_mark(pid) != mark
