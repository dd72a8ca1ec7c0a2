"""Random faults: processes killed at any moment."""
