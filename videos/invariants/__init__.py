"""The rules of the pipeline that must hold at every moment; `manage.py check_invariants` covers them.

What the tables themselves refuse (two videos with one address, more segments than there are) has no rule, nor has what
only a look into the media can tell (joins, keyframes, sound): that is verified before anything is published.
"""

from videos.invariants import files, qualities, renditions, transcodes, videos

__all__ = ["files", "qualities", "renditions", "transcodes", "videos"]
