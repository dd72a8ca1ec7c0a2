"""Workers that reach the site over HTTP. Those that encode videos are in tests/videos/remote."""
