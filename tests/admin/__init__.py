"""The admin of `jobs`: pages, actions, rights. That of `videos` is in tests/videos/admin."""
