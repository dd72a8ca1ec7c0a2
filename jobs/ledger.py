"""Each job with all its attempts and events as one row of sums, for rules that compare them.

One pass over the three tables, whatever the planner believes about their sizes: a join that it takes for small would be
repeated for every job of a queue that has grown since.
"""

from __future__ import annotations

from jobs import database


def _count(condition: str) -> str:
    return f"sum(CASE WHEN {condition} THEN 1 ELSE 0 END)"


def _highest(column: str, condition: str = "true") -> str:
    return f"coalesce(max(CASE WHEN {condition} THEN {column} END), 0)"


COLUMNS = {
    # the job
    "type": "max(type)",
    "status": "max(status)",
    "token": "max(lease_token)",
    "number": "max(attempt_number)",
    "max_attempts": "max(max_attempts)",
    "worker": "coalesce(max(worker_id), '')",
    "says_why": "max(says_why)",
    # its attempts; 0: there is none
    "newest": _highest("attempt_token"),
    "claims": _count("outcome <> 'released'"),
    "running": _count("outcome = 'running'"),
    "lost": _count("outcome = 'lost'"),
    "released": _count("outcome = 'released'"),
    "running_token": _highest("attempt_token", "outcome = 'running'"),
    "running_number": _highest("number", "outcome = 'running'"),
    "running_worker": "coalesce(max(CASE WHEN outcome = 'running' THEN attempt_worker END), '')",
    "first_completed": "coalesce(min(CASE WHEN outcome = 'completed' THEN attempt_token END), 0)",
    "completed_token": _highest("attempt_token", "outcome = 'completed'"),
    "failed_token": _highest("attempt_token", "outcome = 'failed'"),
    "lost_token": _highest("attempt_token", "outcome = 'lost'"),
    # its events
    "recoveries": _count("kind = 'recovered'"),
    "releases": _count("kind = 'released'"),
    "cancellations": _count("kind = 'cancelled'"),
    "reconciliations": _count("kind = 'reconciled'"),
    "starts_over": _count("kind IN ('retried', 'revived', 'reconciled')"),
}

_ENTRIES = """
SELECT id AS job_id, type, status, lease_token, attempt_number, max_attempts, worker_id,
       CASE WHEN last_error = '' THEN 0 ELSE 1 END AS says_why,
       NULL AS attempt_token, NULL AS number, NULL AS attempt_worker, NULL AS outcome, NULL AS kind
FROM jobs_job
UNION ALL
SELECT job_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, token, number, worker_id, outcome, NULL FROM jobs_attempt
UNION ALL
SELECT job_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, kind FROM jobs_event
"""


def find_jobs(condition: str, *, limit: int) -> list[str]:
    """The jobs of which this is true, in terms of COLUMNS: "status = 'cancelled' AND cancellations = 0"."""
    sums = ", ".join(f"{sql} AS {name}" for name, sql in COLUMNS.items())
    rows = database.fetch(
        f"""
        SELECT type, job_id FROM (SELECT job_id, {sums} FROM ({_ENTRIES}) AS entry GROUP BY job_id) AS ledger
        WHERE {condition} ORDER BY job_id LIMIT {limit}
        """
    )
    return [f"{type_name} {job_id}" for type_name, job_id in rows]
