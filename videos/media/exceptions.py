"""What can go wrong with media.

MediaError
├── NotPlayable        the source is no video that we can publish; its text is for the uploader
│   └── LookFailed         the process that looked at it died or hung; most likely because of the file
├── FfmpegFailed       ffmpeg ended badly; its last lines are in the text
│   ├── FfmpegTimedOut     it took too long, or showed no progress
│   └── FfmpegStopped      we were asked to stop, and stopped it
├── ChunkRefused       a chunk was encoded, but not as planned; encode it again
└── NotConformant      what is on disk is not what the plan says

`code` says which it is, for programs; the text is for people and may change.
"""


class MediaError(Exception):
    """Something about media went wrong."""

    code = "media_error"

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code or self.code


class NotPlayable(MediaError):
    """The source is no video that we can publish. `reason` is a sentence for the person who uploaded it."""

    code = "not_playable"

    def __init__(self, reason: str, *, code: str = "") -> None:
        super().__init__(reason, code=code)
        self.reason = reason


class LookFailed(NotPlayable):
    """The process that looked at the file died or hung. An upload is refused; a job tries again before it gives up."""

    code = "look_failed"


class FfmpegFailed(MediaError):
    """ffmpeg ended badly. The text ends with its last lines."""

    code = "ffmpeg_failed"

    def __init__(
        self, message: str, *, returncode: int | None = None, stderr: str = "", code: str = ""
    ) -> None:
        super().__init__(f"{message}\n{stderr}".rstrip(), code=code)
        self.returncode = returncode
        self.stderr = stderr


class FfmpegTimedOut(FfmpegFailed):
    """ffmpeg took too long, or showed no progress, and was killed."""

    code = "ffmpeg_timed_out"


class FfmpegStopped(FfmpegFailed):
    """We were asked to stop, and killed ffmpeg."""

    code = "ffmpeg_stopped"


class ChunkRefused(MediaError):
    """A chunk was encoded, but not as planned. Nothing of it was kept; encode it again."""

    code = "chunk_refused"


class NotConformant(MediaError):
    """What is on disk is not what the plan says. `problems` lists everything found."""

    code = "not_conformant"

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
