"""What can go wrong with media.

MediaError
├── NotPlayable        the source is no video that we can publish; its text is for the uploader
│   └── LookFailed         the process that looked at it died or hung; most likely because of the file
├── FfmpegFailed       ffmpeg ended badly; its last lines are in the text
│   ├── FfmpegTimedOut     it took too long, or showed no progress
│   └── FfmpegStopped      we were asked to stop, and stopped it
├── ChunkRefused       a chunk was encoded, but not as planned; encode it again
└── NotConformant      what is on disk is not what the plan says
"""


class MediaError(Exception):
    """Something about media went wrong."""


class NotPlayable(MediaError):
    """The source is no video that we can publish. `reason` is a sentence for the person who uploaded it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class LookFailed(NotPlayable):
    """The process that looked at the file died or hung. An upload is refused; a job tries again before it gives up."""


class FfmpegFailed(MediaError):
    """ffmpeg ended badly. The text ends with its last lines."""

    def __init__(self, message: str, *, returncode: int | None = None, stderr: str = "") -> None:
        super().__init__(f"{message}\n{stderr}".rstrip())
        self.returncode = returncode
        self.stderr = stderr


class FfmpegTimedOut(FfmpegFailed):
    """ffmpeg took too long, or showed no progress, and was killed."""


class FfmpegStopped(FfmpegFailed):
    """We were asked to stop, and killed ffmpeg."""


class ChunkRefused(MediaError):
    """A chunk was encoded, but not as planned. Nothing of it was kept; encode it again."""


class NotConformant(MediaError):
    """What is on disk is not what the plan says. `problems` lists everything found."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
