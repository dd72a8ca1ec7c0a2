"""The video pipeline: upload to watchable, on the queue of `jobs`."""
