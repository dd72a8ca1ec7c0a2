"""The video pipeline: upload, stages, publishing, pages, API, admin, remote stages."""
