"""The HTTP API: parse, call the queue, render. It decides nothing by itself.

A site offers it where it likes, `path("api/", include("jobs.api.urls"))`, or not at all; it needs django-ninja
(`pip install sprocket-queue[api]`), which nothing else here imports.
"""
