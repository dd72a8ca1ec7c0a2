"""What the pipeline refuses, as facts with the remedy in them.

VideosError
├── UploadRefused        the file is no video that can be published; no row and no file is left
│   └── NotNow               the same file may be accepted later
├── AlreadyTranscoding   the video has an active transcode
└── ActionRefused        the video is not in a state that allows it; nothing was changed
"""

from __future__ import annotations


class VideosError(Exception):
    """Base of every error that the pipeline itself raises."""


class UploadRefused(VideosError):
    """The file was not accepted; its text is for the person who uploaded it."""


class NotNow(UploadRefused):
    """It is not the file's fault: there is no room, or it is still being written."""


class AlreadyTranscoding(VideosError):
    def __init__(self, title: str, number: int) -> None:
        super().__init__(
            f"{title!r} is being transcoded already (generation {number}); wait for it, or cancel its jobs first."
        )


class ActionRefused(VideosError):
    """The video is not in a state that allows this; nothing was changed."""
