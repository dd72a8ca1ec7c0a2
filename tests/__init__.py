"""The test suite. `tests/tiers.py` says what runs when."""
