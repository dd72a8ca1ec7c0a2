"""The worker: claims jobs, runs their handlers, reports how they ended."""
