"""A site with the video pipeline, for the video measures."""
