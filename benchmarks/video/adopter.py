"""Runs one worker and adopts what it leaves behind, so that no CPU time is lost when it is killed.

    python -I -S adopter.py /path/to/python -m django runworker …

A killed worker cannot wait for its ffmpeg; somebody else does, and normally that is the system's first process, with
which the CPU time is gone. This process takes the orphans in (PR_SET_CHILD_SUBREAPER) and waits for them, so the
kernel adds their time to its own account of children (see family.py). It ends when it and its worker are told to.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.fork() == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.execv(sys.argv[1], sys.argv[1:])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        while True:
            os.wait()
    except ChildProcessError:
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main()
