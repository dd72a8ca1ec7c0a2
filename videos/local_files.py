"""Files on this machine that somebody names: opened only if they are files, and never waited for."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from videos.exceptions import NotNow, UploadRefused

_CANNOT_READ = (
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
    *(errno.EACCES, errno.EPERM, errno.ENXIO, errno.EIO),
)


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """Raises UploadRefused for what cannot be read or is no file: a pipe or a device may have no end.

    NotNow at the end if the file has changed meanwhile: then somebody is still writing it.
    """
    try:
        # Without waiting: a pipe that nobody writes to would keep us for ever.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise UploadRefused("It is not a file.", code="not_a_file")
            yield file
            after = os.fstat(file.fileno())
    except OSError as error:
        if error.errno in _CANNOT_READ:
            raise UploadRefused(f"It cannot be read: {error.strerror}.", code="unreadable") from error
        raise
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise NotNow(
            "The file changed while it was read; add it again when it is complete.", code="still_written"
        )
