"""The whole pipeline, with real encoding."""
