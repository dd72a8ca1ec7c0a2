"""The last step before ffmpeg: run by itself, it gives up what ffmpeg must not have, then becomes ffmpeg.

    python -I -S contain.py '{"parent": 123, "address_space": …, "read": […], "write": […]}' /path/to/ffmpeg -i …

It dies with the process that started it (even when that is killed), has limits on memory, file size, CPU time
and open files, and, where the kernel knows Landlock, can open nothing but its source and its own folder and
can reach no network. It imports the standard library only, and runs in a fresh process, because code between
fork and exec must not run in a process with threads.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import struct
import sys
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE = 1 << 14
CONTENTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
"""The rights that a single file can have; the others are about folders."""


def main() -> None:
    rules: dict[str, Any] = json.loads(sys.argv[1])
    command = sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    die_with(rules["parent"], libc)
    set_limits(rules)
    os.nice(rules["nice"])
    if rules["landlock"]:
        restrict(libc, read=rules["read"], write=rules["write"], run=rules["run"])
    os.execv(command[0], command)


def die_with(parent: int, libc: ctypes.CDLL) -> None:
    if sys.platform == "linux":
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before we could ask to be told
        sys.exit(1)


def set_limits(rules: dict[str, Any]) -> None:
    for name, value in (
        (resource.RLIMIT_AS, rules["address_space"]),
        (resource.RLIMIT_FSIZE, rules["file_size"]),
        (resource.RLIMIT_CPU, rules["cpu_seconds"]),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(name)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(OSError, ValueError):  # macOS has no RLIMIT_AS worth its name
            resource.setrlimit(name, (value, value))


def restrict(libc: ctypes.CDLL, *, read: list[str], write: list[str], run: list[str]) -> None:
    """Landlock: no file but these, no TCP. A kernel without it leaves us with ffmpeg's own allow-lists."""
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return
    known = (1 << (13 if version < 2 else 14 if version < 3 else 15)) - 1
    attributes = struct.pack("QQ", known, 3) if version >= 4 else struct.pack("Q", known)
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return
    for paths, rights in (
        (read, READ_FILE | READ_DIR),
        (run, READ_FILE | READ_DIR | EXECUTE),
        (write, known & ~EXECUTE),
    ):
        for path in paths:
            allow(libc, ruleset, path, rights)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0) != 0:
        sys.exit("the kernel refused to contain ffmpeg")
    os.close(ruleset)


def allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):  # noqa: PTH112 (pathlib would double the start-up time)
        rights &= CONTENTS
    rule = struct.pack("=Qi", rights, folder)
    libc.syscall(LANDLOCK_ADD_RULE, ruleset, 1, rule, 0)
    os.close(folder)


if __name__ == "__main__":
    main()
