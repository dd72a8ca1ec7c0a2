"""Who may see which video."""

from __future__ import annotations

from typing import Any

from videos.models import Video, Visibility


def may_watch(user: Any, video: Video) -> bool:
    """Public and unlisted: everybody who has the address. Private: the owner, and staff who may view videos."""
    if video.deleted_at is not None:
        return False
    if video.visibility != Visibility.PRIVATE:
        return True
    if not user.is_authenticated:
        return False
    owns = bool(video.owner) and user.get_username() == video.owner
    return bool(owns or (user.is_staff and user.has_perm("videos.view_video")))
