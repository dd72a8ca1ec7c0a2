"""The HTTP API of `jobs` for staff. That of `videos` is in tests/videos/api."""
