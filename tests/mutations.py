"""Shows that the tests would notice: `python -m tests.mutations [number …]` breaks a copy of the queue in one place
after the other and runs the tests of queue and worker, as `make test` does, until one fails that passes without the
break. Exits with 1 if a break goes unnoticed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT

FOLDERS = ("tests/queue", "tests/worker")
TESTS_FAILED, INTERRUPTED = 1, 2


@dataclass(frozen=True)
class Edit:
    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutation:
    what: str
    edits: Sequence[Edit]
    databases: Sequence[str] = ("postgresql", "sqlite")
    """Where it changes what happens: SQLite has one writer at a time and needs no row locks."""


FINISHING, RUNNING = "jobs/lifecycle/finishing.py", "jobs/lifecycle/running.py"
CLAIMING, WRITING = "jobs/lifecycle/claiming.py", "jobs/lifecycle/writing.py"
MUTATIONS = [
    Mutation(
        "complete does not compare the token",
        [
            Edit(
                FINISHING,
                "AND jobs_job.lease_token = lease.token AND jobs_job.worker_id",
                "AND jobs_job.worker_id",
            ),
            Edit(
                FINISHING,
                "pk=lease.job_id, lease_token=lease.token, processed_by",
                "pk=lease.job_id, processed_by",
            ),
        ],
    ),
    Mutation(
        "progress does not compare the token",
        [Edit(RUNNING, "AND jobs_job.lease_token = report.token AND", "AND")],
    ),
    Mutation(
        "a renewal does not ask whose lease it is",
        [Edit(RUNNING, "(settings.stale_timeout).filter(worker_id=worker_id)", "(settings.stale_timeout)")],
    ),
    Mutation(
        "an expired lease may still be completed",
        [Edit(FINISHING, "AND jobs_job.claim_expires_at > {database.now_sql()}", "")],
    ),
    Mutation(
        "a claim waits for locked rows",
        [Edit(CLAIMING, "select_for_update(skip_locked=True)", "select_for_update()")],
        ("postgresql",),
    ),
    Mutation(
        "the type's row is not locked for its limit",
        [Edit("jobs/lifecycle/rooms.py", '.order_by("name").select_for_update()', '.order_by("name")')],
        ("postgresql",),
    ),
    Mutation(
        "a claim does not look at the priority",
        [
            Edit(CLAIMING, '("priority", "run_at", "id")', '("run_at", "id")'),
            Edit(CLAIMING, "(row[-2], row[-1], row[0])", "(row[-1], row[0])"),
        ],
    ),
    Mutation(
        "a claim does not count the attempt",
        [Edit(CLAIMING, "attempt_number = attempt_number + 1,", "attempt_number = attempt_number,")],
    ),
    Mutation(
        "the wake-up is sent inside the transaction",
        [
            Edit(
                "jobs/wakeup/__init__.py",
                "database.on_commit(partial(send, priority))",
                "partial(send, priority)()",
            )
        ],
    ),
    Mutation(
        "a job whose unique key is taken is inserted all the same",
        [
            Edit(
                WRITING,
                "draft.unique_key, %s, %s, %s, moment,",
                "CASE WHEN EXISTS (SELECT FROM jobs_job j WHERE j.unique_key = draft.unique_key)"
                " THEN NULL ELSE draft.unique_key END, %s, %s, %s, moment,",
            ),
            Edit(
                WRITING,
                "unique_key, workflow, parent, blocked, moment,",
                "NULL, workflow, parent, blocked, moment,",
            ),
        ],
    ),
    Mutation(
        "dependants are advanced after the completing transaction",
        [
            Edit(
                FINISHING,
                "orchestrator.advance([row.id for row in ended if row.has_dependants])",
                "database.on_commit(lambda: orchestrator.advance([row.id for row in ended if row.has_dependants]))",
            )
        ],
    ),
    Mutation(
        "expiry is judged by the worker's clock",
        [
            Edit(
                "jobs/models/job.py",
                "filter(claim_expires_at__lte=Now())",
                "filter(claim_expires_at__lte=timezone.now())",
            ),
            Edit(
                "jobs/models/job.py",
                "\nfrom jobs.database",
                "\nfrom django.utils import timezone\nfrom jobs.database",
            ),
            Edit(
                "jobs/lifecycle/leases.py",
                "ExpressionWrapper(Q(claim_expires_at__lte=Now()), output_field=BooleanField())",
                '"claim_expires_at"',
            ),
            Edit("jobs/lifecycle/recovering.py", "bool(row.is_expired)", "row.is_expired <= timezone.now()"),
            Edit(
                "jobs/lifecycle/recovering.py",
                "\nfrom jobs import",
                "\nfrom django.utils import timezone\nfrom jobs import",
            ),
        ],
    ),
]


def main(chosen: Sequence[int]) -> int:
    unnoticed = []
    with tempfile.TemporaryDirectory(prefix="sprocket-mutations-") as name:
        copy = Path(name)
        _copy_to(copy)
        for number, mutation in enumerate(MUTATIONS, 1):
            if chosen and number not in chosen:
                continue
            _apply(copy, mutation, number)
            for database in mutation.databases:
                noticed_by = _first_failure(copy, database)
                if noticed_by and not _passes(noticed_by, ROOT, database):
                    noticed_by = ""  # it fails without the mutation, too
                sys.stdout.write(f"{number:2} {mutation.what}, {database}: {noticed_by or 'UNNOTICED'}\n")
                sys.stdout.flush()
                if not noticed_by:
                    unnoticed.append(number)
            _restore(copy, mutation)
    return 1 if unnoticed else 0


def _apply(copy: Path, mutation: Mutation, number: int) -> None:
    for edit in mutation.edits:
        path = copy / edit.file
        text = path.read_text()
        assert edit.old in text, f"{edit.file} has changed; look for another place for: {mutation.what}"
        path.write_text(text.replace(edit.old, edit.new, 1))
        os.utime(path, (number, number))  # compiled anew, whatever the size


def _restore(copy: Path, mutation: Mutation) -> None:
    for edit in mutation.edits:
        shutil.copy2(ROOT / edit.file, copy / edit.file)


def _copy_to(copy: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    (ROOT / ".cache").mkdir(exist_ok=True)
    (copy / ".cache").symlink_to(ROOT / ".cache")


def _first_failure(copy: Path, database: str) -> str:
    """The test that notices; empty if none does."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "--exitfirst"]
    done = subprocess.run(
        [*command, f"--database={database}", *FOLDERS], cwd=copy, capture_output=True, text=True
    )
    assert done.returncode in (0, TESTS_FAILED, INTERRUPTED), done.stdout + done.stderr
    failed = re.search(r"(?m)^FAILED (\S+::\S+)", done.stdout)
    assert bool(failed) == bool(done.returncode), done.stdout + done.stderr
    return failed[1] if failed else ""


def _passes(test: str, folder: Path, database: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-n0", f"--database={database}", test]
    return subprocess.run(command, cwd=folder, capture_output=True).returncode == 0


if __name__ == "__main__":
    raise SystemExit(main([int(number) for number in sys.argv[1:]]))
