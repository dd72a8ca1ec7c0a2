"""The main loop is woken from threads and from signal handlers, and never hangs in either."""

import subprocess
import sys
import threading

from jobs.worker.bell import Bell

UNDER_FIRE = """
import os, signal, sys, threading, time
from jobs.worker.bell import Bell

sys.setswitchinterval(0.00001)
bell, rings = Bell(), 0

def on_signal(number, frame):
    global rings
    rings += 1
    bell.ring()

def fire():
    while rings < 3_000:
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.00001)

signal.signal(signal.SIGUSR1, on_signal)
threading.Thread(target=fire, daemon=True).start()
while rings < 3_000:
    bell.wait(0)
    bell.clear()
print("survived")
"""


def test_signals_in_the_middle_of_waiting_do_not_hang_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNDER_FIRE], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "survived\n"), done.stderr


def test_a_ring_before_the_wait_is_not_lost_and_counts_once() -> None:
    bell = Bell()
    for _ in range(3):
        bell.ring()
    assert bell.wait(0)
    assert not bell.wait(0)
    bell.ring()
    bell.clear()
    assert not bell.wait(0)


def test_another_thread_ends_the_wait() -> None:
    bell = Bell()
    threading.Timer(0.05, bell.ring).start()
    assert bell.wait(60)
