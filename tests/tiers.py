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
import re
import subprocess
import sys
import tempfile
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
    few = "-k" in arguments
    begun = time.monotonic()
    running = [Run(part, arguments, few=few) for part in TIERS[tier]] if few else []
    codes: list[int] = []
    told: list[str] = []
    for number, part in enumerate(TIERS[tier]):
        begun = begun if few else time.monotonic()
        codes.append((running[number] if few else Run(part, arguments)).wait())
        told.append(f"{part.database} {clock(time.monotonic() - begun)}{'' if codes[-1] == 0 else ' RED'}")
    nothing_chosen = set(codes) == {NO_TEST_CHOSEN}
    codes = [0 if code == NO_TEST_CHOSEN else code for code in codes]
    sys.stdout.write(f"\n{tier}: {', '.join(told)}\n")
    if tier in LEFT_OUT:
        sys.stdout.write(f"Left out: {LEFT_OUT[tier]}\n")
    return NO_TEST_CHOSEN if nothing_chosen else max(codes)


class Run:
    """pytest over a part. Where somebody has chosen a few tests by their names, the parts run side by side, each in few
    processes and without the modules in which no such name can be: to start takes longer than the tests."""

    def __init__(self, part: Part, arguments: Sequence[str], *, few: bool = False) -> None:
        where = [str(HERE.relative_to(Path.cwd()) / name) for name in part.folders]
        self._memory = f".pytest_cache/{part.database}"
        self._said = tempfile.TemporaryFile() if few else None  # noqa: SIM115 (read in wait)
        processes = {"postgresql": "3", "sqlite": "0"}[part.database] if few else "auto"
        self._command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={self._memory}"]
        self._command += [f"--database={part.database}", "-n", processes, "--dist", "worksteal", *arguments]
        self._command += modules_with(arguments[arguments.index("-k") + 1], where) if few else where
        self._process = subprocess.Popen(self._command, stdout=self._said, stderr=self._said)

    def wait(self) -> int:
        code = self._process.wait()
        if self._said:
            self._said.seek(0)
            sys.stdout.write(self._said.read().decode(errors="replace"))
        if code == TESTS_FAILED and SECOND_LOOK in os.environ:
            return second_look([*self._command, "-n0"], Path(self._memory) / "v/cache/lastfailed")
        return code


def modules_with(expression: str, folders: Sequence[str]) -> list[str]:
    """The modules in whose path, names of tests or parameters one of the words is; all if these are not just words."""
    if not re.fullmatch(r"[\w ]+", expression) or "not" in expression.split():
        return list(folders)
    words = {word.lower() for word in expression.split()} - {"and", "or"}
    modules = [path for folder in folders for path in sorted(Path(folder).rglob("test_*.py"))]
    found = [
        str(path)
        for path in modules
        if any(word in f"{path}\n{without_bodies(path.read_text())}".lower() for word in words)
    ]
    sys.stdout.write(f"{len(found)} of {len(modules)} modules have it in a name of theirs: {expression}\n")
    return found or list(folders)


def without_bodies(source: str) -> str:
    """A module without its imports and the bodies of its functions."""
    kept: list[str] = []
    inside = False
    for line in source.splitlines():
        if re.match(r"[^\s)]", line):
            inside = line.startswith(("import ", "from "))
        if not inside:
            kept.append(line)
        if re.match(r"((async )?def |\)).*:$", line):
            inside = True
    return "\n".join(kept)


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
