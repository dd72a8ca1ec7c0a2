"""`runworker`: its loop, its processes, how it starts and ends."""
