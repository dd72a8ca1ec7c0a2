"""What the pipeline refuses, as facts with the remedy in them.

VideosError
├── UploadRefused        the file is no video that can be published; no row and no file is left
│   └── NotNow               the same file may be accepted later
├── AlreadyTranscoding   the video has an active transcode
└── ActionRefused        the video is not in a state that allows it; nothing was changed

`code` says which it is, for programs; the text is for people and may change.
"""

from __future__ import annotations


class VideosError(Exception):
    """Base of every error that the pipeline itself raises."""

    code = "videos_error"

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code or self.code


class UploadRefused(VideosError):
    """The file was not accepted; its text is for the person who uploaded it."""

    code = "upload_refused"


class NotNow(UploadRefused):
    """It is not the file's fault: there is no room, or it is still being written."""

    code = "not_now"


class AlreadyTranscoding(VideosError):
    code = "already_transcoding"

    def __init__(self, title: str, number: int) -> None:
        super().__init__(
            f"{title!r} is being transcoded already (generation {number}); wait for it, or cancel its jobs first."
        )
        self.number = number


class ActionRefused(VideosError):
    """The video is not in a state that allows this; nothing was changed."""

    code = "action_refused"
