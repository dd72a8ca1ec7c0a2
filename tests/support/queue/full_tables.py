"""A queue with a past: rows by the ten thousand, written in two statements."""

from __future__ import annotations

from django.db import connection

from tests.support.queue.actors import new_worker

_JOBS = """
INSERT INTO jobs_job (id, type, payload, status, correlation_id, run_at, created_at, completed_at, last_error,
                      attempt_number, lease_token)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}),
job AS (
    SELECT i, {ago} AS since,
           CASE i % 20 WHEN 0 THEN 'failed' WHEN 1 THEN 'pending' WHEN 2 THEN 'waiting' ELSE 'completed' END AS status
    FROM n
)
SELECT {ulid}, 'tests.noop', '{{}}', status, '', CASE status WHEN 'waiting' THEN {tomorrow} ELSE since END, since,
       CASE status WHEN 'completed' THEN since END, CASE status WHEN 'failed' THEN 'ValueError: no' ELSE '' END,
       CASE WHEN status IN ('completed', 'failed') THEN 1 ELSE 0 END,
       CASE WHEN status IN ('completed', 'failed') THEN 1 ELSE 0 END
FROM job
"""
_ATTEMPTS = """
INSERT INTO jobs_attempt (job_id, token, number, worker_id, worker_name, started_at, finished_at, outcome)
SELECT id, 1, 1, %s, %s, created_at, created_at, status FROM jobs_job
WHERE status IN ('completed', 'failed') AND correlation_id = '' ORDER BY id DESC
"""


def fill_tables(count: int) -> None:
    """So many jobs: most completed over the last day; one in twenty each failed, pending, and due tomorrow."""
    if connection.vendor == "postgresql":
        ulid, ago = "lpad(i::text, 26, '0')", f"statement_timestamp() - i * interval '1 day' / {count}"
        tomorrow = "statement_timestamp() + interval '1 day'"
    else:
        ulid = "printf('%026d', i)"
        ago = f"strftime('%Y-%m-%d %H:%M:%f', 'now', '-' || (i * 86400.0 / {count}) || ' seconds')"
        tomorrow = "strftime('%Y-%m-%d %H:%M:%f', 'now', '+1 day')"
    worker = new_worker(name="of the past")
    with connection.cursor() as cursor:
        cursor.execute(_JOBS.format(count=count, ulid=ulid, ago=ago, tomorrow=tomorrow))
        cursor.execute(_ATTEMPTS, [worker.pk, worker.name])
        if connection.vendor == "postgresql":
            # Earlier tests leave dead entries behind, which make an index look dearer than it is.
            cursor.execute("REINDEX TABLE jobs_job")
            cursor.execute("REINDEX TABLE jobs_attempt")
        cursor.execute("ANALYZE jobs_job")
        cursor.execute("ANALYZE jobs_attempt")
