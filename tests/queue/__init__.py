"""The queue itself: enqueueing, claims, leases, recovery, workflows, limits, wake-ups."""
