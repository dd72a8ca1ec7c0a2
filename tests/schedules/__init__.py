"""Jobs that run by the clock."""
