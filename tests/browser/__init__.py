"""Tests in a real browser: Chromium through Playwright, against the real site with a real worker."""
