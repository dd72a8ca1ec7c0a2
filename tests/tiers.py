"""Which tests run when: the one place that says so. A test belongs to the tier of its folder.

    python -m tests.tiers test [pytest's arguments]        what `make test` runs: minutes, before every commit
    python -m tests.tiers rest                             what `make test-all` runs besides
    python -m tests.tiers strangers                        other browsers, where they are installed

`make test` has every behaviour on PostgreSQL, and what speaks SQL (ON_BOTH) on SQLite, too. The rest is the other
folders, and on SQLite what `make test` has on PostgreSQL alone. No test runs twice on one database.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

ON_BOTH = ("queue", "worker", "schedules", "breakers", "tasks_backend")
"""SQL, locks and processes that race for rows."""
ON_POSTGRESQL = (
    *("acceptance", "admin", "alerts", "api", "live", "media", "observability", "project", "remote"),
    *("smoke", "videos"),
)
"""Pages, requests and media: the same code on either database."""
SLOW = ("chaos", "deploy", "fuzz", "long", "sites")
"""Random faults and inputs, servers as they are deployed, foreign sites, and what takes long by its nature."""
BROWSER = ("browser",)
"""Pages do not know which database they come from: SQLite, once."""
STRANGERS = ("strangers",)
"""Browsers that few machines have."""
HELPERS = ("hearing", "jobapp", "remoteapp", "support")
"""No tests."""

TESTS_FAILED, NO_TEST_CHOSEN = 1, 5
SECOND_LOOK = "SPROCKET_SECOND_LOOK"


@dataclass(frozen=True)
class Part:
    database: str
    folders: Sequence[str]


TIERS = {
    "test": [Part("postgresql", (*ON_BOTH, *ON_POSTGRESQL)), Part("sqlite", ON_BOTH)],
    "rest": [Part("postgresql", SLOW), Part("sqlite", (*ON_POSTGRESQL, *SLOW, *BROWSER))],
    "strangers": [Part("sqlite", STRANGERS)],
}
LEFT_OUT = {
    "test": f"{', '.join((*SLOW, *BROWSER))}; on SQLite also {', '.join(ON_POSTGRESQL)}. `make test-all` runs them.",
}


def main(tier: str, arguments: Sequence[str]) -> int:
    """Run every part, also after one that failed, and say how long each took. Returns the exit code."""
    codes: list[int] = []
    told: list[str] = []
    for part in TIERS[tier]:
        begun = time.monotonic()
        codes.append(run(part, arguments))
        told.append(f"{part.database} {clock(time.monotonic() - begun)}{'' if codes[-1] == 0 else ' RED'}")
    nothing_chosen = set(codes) == {NO_TEST_CHOSEN}
    codes = [0 if code == NO_TEST_CHOSEN else code for code in codes]
    sys.stdout.write(f"\n{tier}: {', '.join(told)}\n")
    if tier in LEFT_OUT:
        sys.stdout.write(f"Left out: {LEFT_OUT[tier]}\n")
    return NO_TEST_CHOSEN if nothing_chosen else max(codes)


def run(part: Part, arguments: Sequence[str]) -> int:
    folders = [str(HERE.relative_to(Path.cwd()) / name) for name in part.folders]
    memory = f".pytest_cache/{part.database}"
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={memory}", f"--database={part.database}"]
    code = subprocess.run([*command, "-n", "auto", "--dist", "worksteal", *arguments, *folders]).returncode
    if code == TESTS_FAILED and SECOND_LOOK in os.environ:
        return second_look([*command, "-n0", *arguments, *folders], Path(memory) / "v/cache/lastfailed")
    return code


def second_look(command: Sequence[str], failed: Path) -> int:
    """Up to three tests that failed run three times more by themselves. `.ci/run` asks for it until the suite is known
    to be steady on a busy machine."""
    names = failed.read_text()
    if len(json.loads(names)) > 3:
        return TESTS_FAILED
    for _ in range(3):
        failed.write_text(names)
        if code := subprocess.run([*command, "--last-failed"]).returncode:
            return code
    sys.stdout.write(f"\nUNSTEADY: {', '.join(json.loads(names))}\n")
    return 0


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
