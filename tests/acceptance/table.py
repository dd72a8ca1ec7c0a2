"""docs/seeds.md, written from the docstrings of the tests: `python -m tests.acceptance.table > docs/seeds.md`.

The docstring of a test of this folder begins with the statements that it shows, a line each, in the words of the
document that has them; where we do something else, the reason follows:

    001 · 5. Job Failure · “`attempt_number = attempt_number + 1`”
    Decided: an attempt is counted when it is claimed, …
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATEMENT = re.compile(r"(\d{3}) · (.+?) · “(.+)”")

SEEDS = {
    "000": "Queue Management",
    "001": "Transcoding Job Lifecycle and State Machine",
    "002": "Queue & Worker Subsystem",
    "003": "State Machine and Leases",
    "004": "Simple Database-Backed Job Queue",
}
SECTIONS = {
    "000": (
        "Objective",
        "Core Rules",
        "DB Considerations",
        "Atomic Selection Pattern",
        "Reconciliation Task",
        "Edge Cases",
        "Instrumentation",
        "Acceptance Criteria",
        "Definition of Done",
        "Test Cases",
    ),
    "001": (
        "Video Status",
        "Transcoding Job",
        "Derived Job States",
        "Worker Status",
        "Quality Progress",
        "Video Status State Machine",
        "Job Lifecycle State Machine",
        "Worker State Machine",
        "1. Job Creation",
        "2. Job Claiming",
        "3. Progress Updates",
        "4. Job Completion",
        "4a. Retranscode",
        "5. Job Failure",
        "6. Claim Expiration",
        "7. Worker Registration",
        "8. Worker Offline Detection",
        "Edge Cases",
        "Job Queue",
        "Real-Time Updates",
        "Webhook Alerts",
        "Health Checks",
        "Configuration Reference",
        "State Transition Tests",
        "Race Condition Tests",
        "Failure Recovery Tests",
        "Integration Tests",
        "Related Issues",
    ),
    "002": (
        "1. Goals",
        "2. Data Structures",
        "3. Enqueue Path",
        "4. Dequeue Path",
        "5. Priority Semantics",
        "6. Delay / Scheduling",
        "7. Worker Thread Model",
        "8. Circuit Breaker",
        "9. Queue Item",
        "10. Test Utilities",
        "11. Queue Inspection",
        "12. Worker Exception Tracking",
        "13. Failures",
        "14. Scaling Path",
        "15. Instrumentation",
        "16. Security",
        "17. Normal Flow",
        "18. Delayed Retry",
        "19. Configuration",
    ),
    "003": (
        "Stage statuses",
        "Orchestrator",
        "Workers",
        "Concurrency-safe claiming",
        "Per-stage leases",
        "Completion is compare-and-set",
        "Recovery loop",
        "Idempotency guidelines",
        "Segment-level leases",
    ),
    "004": (
        "Problem",
        "Schema",
        "Job Registry",
        "Producer",
        "Consumer",
        "Concurrency Control",
    ),
}
"""The sections of each document, in its order."""

HEAD = """\
# The customer's documents, statement by statement

Written by `python -m tests.acceptance.table > docs/seeds.md` from the docstrings of `tests/acceptance`; change those.

Five documents describe what this queue and this pipeline must do. Each of their statements about behaviour is quoted
here, in the order of its document, with the test that shows it; `make test` runs all of them on both databases. Where
we decided otherwise, the last column says what we do and why, and the test shows that. [states.md](states.md) explains
the statuses.

Left out, because they say nothing that this system does: file and directory names of the products that the documents
were written for, their example code, their programming languages and their host systems (Nitro, SQLAlchemy, Turso);
"potential future" and backlog ideas that are not statements; cross-references to other documents; and the affiliate
reports, trust scores and podcasts that their jobs were about.
"""


@dataclass(frozen=True)
class Statement:
    seed: str
    section: str
    words: str
    module: str
    test: str
    decided: str


class BadDocstring(ValueError):
    """A statement that the table has no place for."""


def tests() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every test of this folder with its module's name, in the order of the files and of each file."""
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield path.stem, node


def statements_of(module: str, test: ast.FunctionDef) -> list[Statement]:
    text = ast.get_docstring(test) or ""
    paragraph = text.partition("\n\n")[0]
    quoted, _, reason = paragraph.partition("Decided: ")
    found: list[Statement] = []
    for line in quoted.strip().splitlines():
        match = STATEMENT.fullmatch(line.strip())
        if match is None:
            if STATEMENT.match(line.strip()) or found:
                raise BadDocstring(f"{module}.{test.name}: {line!r}")
            return []
        seed, section, words = match.groups()
        if section not in SECTIONS.get(seed, ()):
            raise BadDocstring(f"{module}.{test.name}: seed {seed} has no section {section!r}")
        found.append(Statement(seed, section, words, module, test.name, " ".join(reason.split())))
    return found


def all_statements() -> list[Statement]:
    found = [statement for module, test in tests() for statement in statements_of(module, test)]
    return sorted(found, key=lambda one: (one.seed, SECTIONS[one.seed].index(one.section)))


def row_of(statements: Sequence[Statement]) -> str:
    """Statements of one section that the same test shows."""
    one = statements[0]
    words = "<br>".join(statement.words.replace("|", "\\|") for statement in statements)
    test = f"[{one.test}](../tests/acceptance/{one.module}.py)"
    return f"| {one.section} | {words} | {test} | {one.decided} |"


def render() -> str:
    statements = all_statements()
    lines = [HEAD]
    for seed, title in SEEDS.items():
        lines += [f"## {seed}: {title}\n"]
        lines += ["| section | the document's words | test | decided otherwise |", "|---|---|---|---|"]
        mine = (statement for statement in statements if statement.seed == seed)
        lines += [row_of(list(group)) for _, group in groupby(mine, key=lambda one: (one.section, one.test))]
        lines += [""]
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
