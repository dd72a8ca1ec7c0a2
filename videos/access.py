"""Who may see which video."""

from __future__ import annotations

from typing import Any

from videos.models import Video, Visibility

UPLOAD = "videos.add_video"
VIEW = ("videos.view_video", "videos.change_video")
CHANGE = "videos.change_video"


def may_watch(user: Any, video: Video) -> bool:
    """Public and unlisted: everybody who has the address. Private: the owner, and staff who may view videos."""
    if video.deleted_at is not None:
        return False
    if video.visibility != Visibility.PRIVATE:
        return True
    if not user.is_authenticated:
        return False
    owns = bool(video.owner) and user.get_username() == video.owner
    return bool(owns or may_view(user))


def may_view(user: Any) -> bool:
    """In the admin, whoever may change videos may look at them."""
    return bool(user.is_active and user.is_staff and any(user.has_perm(name) for name in VIEW))


def may_edit(user: Any) -> bool:
    return bool(user.is_active and user.is_staff and user.has_perm(CHANGE))
