"""`jobs` as a backend of Django's tasks."""
