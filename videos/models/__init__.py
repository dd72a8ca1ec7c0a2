"""The tables of the video pipeline."""

from videos.models.channel import Channel
from videos.models.quality_progress import QualityProgress, QualityStatus
from videos.models.rendition import Rendition, RenditionKind
from videos.models.resumable_upload import ResumableUpload
from videos.models.subtitle import Subtitle, SubtitleSource
from videos.models.transcode import Step, Transcode, TranscodeStatus
from videos.models.video import Video, VideoStatus, Visibility

__all__ = [
    "Channel",
    "QualityProgress",
    "QualityStatus",
    "Rendition",
    "RenditionKind",
    "ResumableUpload",
    "Step",
    "Subtitle",
    "SubtitleSource",
    "Transcode",
    "TranscodeStatus",
    "Video",
    "VideoStatus",
    "Visibility",
]
