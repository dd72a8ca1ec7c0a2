"""The HTTP API for those who run the site: what the admin shows and does, with the same rights and the same log.

A site offers it where it likes, `path("api/", include("videos.api.urls"))`; it needs django-ninja, which nothing else
in this app imports.
"""
