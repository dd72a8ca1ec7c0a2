"""What the hub waits with, however many files its process has open."""

import os
import resource
import threading
from collections.abc import Iterator

import pytest

from jobs.live.sources import Alarm

BEYOND_SELECT = 1100


@pytest.fixture
def many_open_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * BEYOND_SELECT:
        pytest.skip(f"a process may open only {hard} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * BEYOND_SELECT), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(BEYOND_SELECT)]
    yield
    for file in files:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_open_files")
def test_it_rings_in_a_process_with_more_than_a_thousand_open_pages() -> None:
    alarm = Alarm()
    threading.Timer(0.05, alarm.ring).start()
    assert alarm.wait(60) is False
    alarm.close()


@pytest.mark.usefixtures("many_open_files")
def test_it_says_when_another_file_has_something_to_read() -> None:
    alarm = Alarm()
    reader, writer = os.pipe()
    assert reader > 1024
    assert alarm.wait(0, reader) is False
    os.write(writer, b"news")
    assert alarm.wait(60, reader) is True
    alarm.close()
    os.close(reader)
    os.close(writer)
