"""Three checks in a browser before every commit. The others are in tests/browser."""
