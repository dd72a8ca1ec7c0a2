"""The pipeline in the Django admin: the verbs of intervening.py as buttons. Nothing here writes a status itself."""

from videos.admin import channel, subtitle, transcode, video

__all__ = ["channel", "subtitle", "transcode", "video"]
