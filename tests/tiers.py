"""Which tests run when: the one place that says so. A test belongs to the tier of its folder.

    python -m tests.tiers test [pytest's arguments]        what `make test` runs: minutes, before every commit
    python -m tests.tiers rest                             what `make test-all` runs besides
    python -m tests.tiers strangers                        other browsers, where they are installed

`make test` runs the tests of every feature on PostgreSQL, and those whose result can depend on the database (ON_BOTH)
on SQLite, too. The rest is the slow folders and the browser tests, and on SQLite what `make test` runs on PostgreSQL
alone. No test runs twice on one database.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

HERE = Path(__file__).resolve().parent

ON_BOTH = ("acceptance", "queue", "worker", "schedules", "breakers", "tasks_backend")
"""What the customer's documents say; SQL, locks and processes that race for rows."""
ON_POSTGRESQL = (
    *("admin", "alerts", "api", "live", "media", "observability", "project", "remote"),
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
    "test": f"""
Left out, because it takes long or needs other programs:
  {", ".join((*SLOW, *BROWSER))}; on SQLite also {", ".join(ON_POSTGRESQL)}: `make test-all`
  {", ".join(STRANGERS)} (Firefox, WebKit): `make test-strangers`
""",
}


def main(tier: str, arguments: Sequence[str]) -> int:
    """Run every part, also after one that failed, and say how long each took. Returns the exit code."""
    few = "-k" in arguments
    begun = time.monotonic()
    parts = [part for part in TIERS[tier] if chosen_of(part, arguments)]
    if not parts:
        sys.stderr.write(f"none of these is in the tier {tier}: {' '.join(paths_among(arguments))}\n")
        return NO_TEST_CHOSEN
    running = [Run(part, arguments, few=few) for part in parts] if few else []
    codes: list[int] = []
    told: list[str] = []
    for number, part in enumerate(parts):
        begun = begun if few else time.monotonic()
        codes.append((running[number] if few else Run(part, arguments)).wait())
        told.append(f"{part.database} {clock(time.monotonic() - begun)}{'' if codes[-1] == 0 else ' RED'}")
    sys.stdout.write(f"\n{tier}: {', '.join(told)}\n{LEFT_OUT.get(tier, '')}")
    return result_of(codes, some_chosen=bool(arguments))


def result_of(codes: Sequence[int], *, some_chosen: bool) -> int:
    """0 if every part was green: not if one was killed, and not if one had no tests although nobody has chosen any."""
    if set(codes) == {NO_TEST_CHOSEN}:
        return NO_TEST_CHOSEN
    return int(any(code != 0 and not (some_chosen and code == NO_TEST_CHOSEN) for code in codes))


def paths_among(arguments: Sequence[str]) -> list[str]:
    return [argument for argument in arguments if Path(argument.split("::")[0]).exists()]


def chosen_of(part: Part, arguments: Sequence[str]) -> list[str]:
    """The part's folders, or what the arguments name of them."""
    folders = [HERE / name for name in part.folders]
    if not (paths := paths_among(arguments)):
        return [str(folder.relative_to(Path.cwd())) for folder in folders]
    return [
        path
        for path in paths
        if {*folders} & {*Path(path.split("::")[0]).resolve().parents, Path(path).resolve()}
    ]


class Run:
    """pytest over a part. Where somebody has chosen a few tests by their names, the parts run side by side, each in few
    processes and without the modules in which no such name can be: to start takes longer than the tests."""

    def __init__(self, part: Part, arguments: Sequence[str], *, few: bool = False) -> None:
        where = chosen_of(part, arguments)
        options = [argument for argument in arguments if argument not in paths_among(arguments)]
        self._memory = f".pytest_cache/{part.database}"
        self._said = tempfile.TemporaryFile() if few else None  # noqa: SIM115 (read in wait)
        processes = {"postgresql": "3", "sqlite": "0"}[part.database] if few else "auto"
        self._command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={self._memory}"]
        self._command += [f"--database={part.database}", "-n", processes, "--dist", "worksteal", *options]
        self._command += modules_with(last_expression(arguments), where) if few else where
        self._process = subprocess.Popen(self._command, stdout=self._said, stderr=self._said)
        _running.append(self._process)

    def wait(self) -> int:
        code = self._process.wait()
        if self._said:
            self._said.seek(0)
            sys.stdout.write(self._said.read().decode(errors="replace"))
        if code == TESTS_FAILED and SECOND_LOOK in os.environ:
            return second_look([*self._command, "-n0"], Path(self._memory) / "v/cache/lastfailed")
        return code


_running: list[subprocess.Popen[bytes]] = []


def end_all(number: int, frame: FrameType | None) -> NoReturn:
    """Told to end: so are the tests, which stop their servers."""
    for process in _running:
        process.terminate()
    for process in _running:
        process.wait()
    raise SystemExit(128 + number)


def last_expression(arguments: Sequence[str]) -> str:
    """Of several `-k`, pytest takes the last."""
    return arguments[max(at for at, argument in enumerate(arguments) if argument == "-k") + 1]


def modules_with(expression: str, places: Sequence[str]) -> list[str]:
    """The modules that may have one of the words in their path or a test's name; all if it is more than words."""
    if not re.fullmatch(r"[\w ]+", expression) or "not" in expression.split():
        return list(places)
    words = {word.lower() for word in expression.split()} - {"and", "or"}
    modules = [
        path
        for place in map(Path, places)
        for path in ([place] if place.suffix else sorted(place.rglob("test_*.py")))
    ]
    if any("::" in str(path) for path in modules):
        return list(places)
    found = [str(path) for path in modules if may_have(words, path)]
    sys.stdout.write(
        f"{len(found)} of {len(modules)} modules may have it in a name of theirs: {expression}\n"
    )
    return found or list(places)


def may_have(words: Iterable[str], path: Path) -> bool:
    source = without_bodies(path.read_text())
    return any(word in f"{path}\n{source}".lower() for word in words) or bool(COMPUTED.search(source))


COMPUTED = re.compile(
    r"parametrize\(\s*(?:\"[^\"]*\"|\([^)]*\)),\s*(?:\w+\.|[a-z]\w*\(|\[\*?[\w.]+ for )|params=(?!\[)"
)
"""Parameters whose names come from other modules."""


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
    signal.signal(signal.SIGTERM, end_all)
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
