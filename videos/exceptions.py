"""What the pipeline refuses, as facts with the remedy in them.

VideosError
├── UploadRefused        the file is no video that can be published; no row and no file is left
│   └── NotNow               the same file may be accepted later
├── AlreadyTranscoding   the video has an active transcode
└── ActionRefused        the video is not in a state that allows it; nothing was changed

`code` says which it is, for programs; the text is for people and may change.

Raised by handlers, to say how an attempt ended; the class's name is the attempt's `error_type`:

PermanentFailure (jobs)
├── SourceGone           there is no source; put it back, then retry
├── SourceChanged        the source has another size than what was uploaded
├── NothingDecoded       not one picture of the source could be decoded
├── PlanUnusable         there is no plan, or one of another version
├── PublishedDamaged     qualities that were to be kept are not whole any more; encode all of them again
├── TimelineDiffers      the source gives another number of pictures than the qualities that were to be kept have
└── VideoExists          files of a video that was not purged are not removed
RetryLater (jobs)
├── NotThisWorker        another worker can do it
└── NobodyEncodes        no worker that encodes is there
TransitionRefused (jobs)
├── VideoDeleted         a job of a deleted video does not start over
├── FilesRemoved         nor one of a generation whose files are removed
└── GenerationReplaced   nor one of a generation that has a newer one
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jobs.exceptions import PermanentFailure, RetryLater, TransitionRefused


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


class SourceGone(PermanentFailure):
    def __init__(self, source: Path) -> None:
        super().__init__(f"The source is gone: there is no file {source}. Put it back; then retry the video.")


class SourceChanged(PermanentFailure):
    def __init__(self, source: Path, *, size: int, uploaded: int) -> None:
        super().__init__(
            f"The source has changed: {source} has {size:,} bytes, and had {uploaded:,} when it was "
            "uploaded. Put it back as it was; then retry the video."
        )


class NothingDecoded(PermanentFailure):
    def __init__(self) -> None:
        super().__init__("Not one picture of the source could be decoded.")


class PlanUnusable(PermanentFailure):
    """There is no plan, or it cannot be used here."""


class PublishedDamaged(PermanentFailure):
    def __init__(self, qualities: Sequence[str]) -> None:
        super().__init__(
            f"The published version has lost files of {', '.join(qualities)}, which were to be kept. "
            "Re-encode all qualities."
        )


class TimelineDiffers(PermanentFailure):
    def __init__(self, *, found: int, kept: int) -> None:
        super().__init__(
            f"The source gives {found:,} pictures now, and the qualities that were to be kept have {kept:,}. "
            "Re-encode all qualities."
        )


class VideoExists(PermanentFailure):
    """Its files go when it is purged, and not before."""


class NotThisWorker(RetryLater):
    """The worker lacks what the job needs; another one has it."""


class NobodyEncodes(RetryLater):
    """No worker that encodes is there."""


class VideoDeleted(TransitionRefused):
    """The job's video is deleted; restore it first."""


class FilesRemoved(TransitionRefused):
    """The files of the job's generation have been removed."""


class GenerationReplaced(TransitionRefused):
    """The job's generation has been replaced by a newer one."""
