"""The test suite; every behaviour on PostgreSQL and on SQLite."""
