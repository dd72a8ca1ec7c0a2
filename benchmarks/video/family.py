"""Families of processes, read from /proc: what a process and all its descendants have used, the dead included.

The kernel keeps four numbers per process: its own time (user, system) and that of the children it has waited for.
Summed over a living tree they miss nobody, as long as every orphan is adopted inside the tree (see adopter.py).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_TRIES = 20


@dataclass(frozen=True, slots=True)
class _Member:
    pid: int
    parent: int
    own_seconds: float
    children_seconds: float
    """Of those that have ended and were waited for, with all that was counted for them."""

    @property
    def cpu_seconds(self) -> float:
        return self.own_seconds + self.children_seconds


def cpu_seconds(root: int) -> float:
    """CPU time of the process and of all its descendants so far."""
    members = _members(root)
    for _ in range(_TRIES):
        # One that ended between two looks might be counted twice: by itself, and by the parent that waited for it.
        again = _members(root)
        if {member.pid for member in members} == {member.pid for member in again}:
            return sum(member.cpu_seconds for member in members)
        members = again
    raise RuntimeError(f"the children of process {root} come and go too quickly to be counted")


def own_seconds(pid: int) -> float:
    """CPU time of the process itself so far, without its children."""
    member = _read(pid)
    if member is None:
        raise RuntimeError(f"there is no process {pid} any more")
    return member.own_seconds


def children(parent: int) -> list[int]:
    return [member.pid for member in _everybody() if member.parent == parent]


def peak_resident(pid: int) -> int:
    """The most memory the process itself has held so far, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no memory any more")


def _members(root: int) -> list[_Member]:
    by_parent: dict[int, list[_Member]] = {}
    found = []
    for member in _everybody():
        by_parent.setdefault(member.parent, []).append(member)
        if member.pid == root:
            found.append(member)
    for member in found:  # grows while it is walked
        found += by_parent.get(member.pid, [])
    return found


def _everybody() -> list[_Member]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [member for member in map(_read, pids) if member]


def _read(pid: int) -> _Member | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it ended meanwhile
        return None
    fields = text.rpartition(")")[2].split()  # from field 3 of proc(5) on; the name may hold spaces
    user, system, children_user, children_system = (int(ticks) / _TICKS for ticks in fields[11:15])
    return _Member(pid, int(fields[1]), user + system, children_user + children_system)
