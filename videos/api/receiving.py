"""A file in a form goes straight to ROOT/incoming, with its checksum taken on the way: it is written once."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable
from typing import Any, BinaryIO

from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest, HttpResponse

from jobs.refusal import Refusal
from jobs.ulid import new_ulid
from videos import conf, intake, storage, upload_rate
from videos.refusal import refusing_uploads

SLACK = 1 << 20
"""What a form may have besides its file."""

View = Callable[..., HttpResponse]


class Received(UploadedFile):  # type: ignore[type-arg]
    """The field of the form; `upload` is what intake makes a video of."""

    def __init__(self, file: BinaryIO, upload: intake.Upload, content_type: str) -> None:
        super().__init__(file, upload.name, content_type, upload.size)
        self.upload = upload


class IntoIncoming(FileUploadHandler):
    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request)
        self.upload_id = ""
        self._file: BinaryIO | None = None
        self._digest = hashlib.sha256()

    def handle_raw_input(
        self, input_data: Any, meta: Any, content_length: int, boundary: Any, encoding: Any = None
    ) -> None:
        assert self.request is not None
        upload_rate.take(self.request.user)
        limit = conf.current().upload_max_bytes
        if content_length > limit + SLACK:
            raise Refusal(413, "too_large", f"file: It is larger than {limit:,} bytes, the limit here.")
        if content_length + conf.current().min_free_bytes > storage.capacity()[0]:
            raise Refusal(507, "no_room", intake.NO_ROOM)

    def new_file(self, *arguments: Any, **named: Any) -> None:
        super().new_file(*arguments, **named)
        if self.upload_id:
            raise Refusal(422, "invalid", "file: Send one file at a time.")
        self.upload_id = new_ulid()
        self.file_name = intake.plain_name(self.file_name or "") or "video"
        with refusing_uploads():
            folder = storage.incoming(self.upload_id)
            folder.mkdir(parents=True)
            self._file = (folder / storage.safe_name(self.file_name)).open("wb")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        assert self._file is not None
        limit = conf.current().upload_max_bytes
        if start + len(raw_data) > limit:
            raise Refusal(413, "too_large", f"file: It is larger than {limit:,} bytes, the limit here.")
        self._digest.update(raw_data)
        with refusing_uploads():
            self._file.write(raw_data)

    def file_complete(self, file_size: int) -> Received:
        assert self._file is not None
        with refusing_uploads():
            self._file.flush()
            os.fsync(self._file.fileno())
        upload = intake.Upload(self.upload_id, str(self.file_name), file_size, self._digest.hexdigest())
        return Received(self._file, upload, str(self.content_type))

    def clean_up(self) -> None:
        """Whatever became of it; a video has its file elsewhere."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        if self.upload_id:
            storage.remove(storage.incoming(self.upload_id))


def into_incoming(run: View) -> View:
    """For an operation that takes a file."""

    @functools.wraps(run)
    def receive(request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse:
        handler = IntoIncoming(request)
        request.upload_handlers = [handler]
        try:
            return run(request, *arguments, **named)
        finally:
            handler.clean_up()

    return receive
