"""What holds for the code as a whole: who imports whom, who writes what, whose clock counts, how long a module is."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from django.core.management import call_command, get_commands, load_command_class

from jobs.conf import JobsSettings
from tests import mutations, tiers
from tests.support import ROOT

LONGEST = 500


def modules(*packages: str) -> list[Path]:
    """Every module that people write."""
    found = [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]
    return [path for path in found if "migrations" not in path.parts]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def texts(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Each call with its dotted name: ("Job.objects.filter.update", …)."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            yield dotted(node.func), node


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Call):
        return dotted(node.func)
    return node.id if isinstance(node, ast.Name) else ""


# -- imports ---------------------------------------------------------------------------------------------------------


def test_the_queue_knows_neither_the_pipeline_nor_the_site_nor_the_tests() -> None:
    strangers = {"videos", "project", "tests", "benchmarks"}
    guilty = [
        f"{name_of(path)} imports {name}"
        for path in modules("jobs")
        for name in imported(path)
        if name.split(".")[0] in strangers
    ]
    assert guilty == []


def test_the_pipeline_does_not_know_the_site_or_the_tests() -> None:
    guilty = [
        f"{name_of(path)} imports {name}"
        for path in modules("videos")
        for name in imported(path)
        if name.split(".")[0] in {"project", "tests", "benchmarks"}
    ]
    assert guilty == []


def test_only_the_testing_helpers_know_of_tests() -> None:
    guilty = [
        name_of(path)
        for path in modules("jobs", "videos", "project")
        if any(re.match(r"(pytest|unittest|django\.test)\b", name) for name in imported(path))
    ]
    assert guilty in ([], ["jobs/testing.py"])


def test_a_site_with_videos_does_not_load_the_libraries_that_parse_them() -> None:
    """PyAV is for child processes and for pictures of our own: 25 MB, and whatever a hostile file does to it."""
    code = "import django, sys; django.setup(); import videos.urls, videos.admin; print('av' in sys.modules)"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


# -- who writes ------------------------------------------------------------------------------------------------------

WRITERS = ("jobs/lifecycle/", "jobs/orchestrator.py", "jobs/repairs.py")
"""Only these move a job from one status to another."""
WORKERS_STATUS = ("jobs/fleet.py",)
"""Writes a status too, but that of a worker."""
WRITES = {"update", "create", "bulk_create", "bulk_update", "update_or_create", "get_or_create", "save"}


def others() -> list[Path]:
    return [path for path in modules("jobs", "videos", "project") if not name_of(path).startswith(WRITERS)]


def test_nothing_else_writes_a_jobs_status() -> None:
    guilty = [
        f"{name_of(path)}:{call.lineno} {name}"
        for path in others()
        for name, call in calls(path)
        if name.split(".")[-1] in WRITES
        and any(keyword.arg == "status" for keyword in call.keywords)
        and (
            name.startswith("Job.")
            or (name_of(path).startswith("jobs/") and not is_about_workers(path, name))
        )
    ]
    assert guilty == []


def is_about_workers(path: Path, name: str) -> bool:
    return name.startswith("Worker.") or name_of(path).startswith(WORKERS_STATUS)


def test_nothing_else_writes_jobs_in_sql() -> None:
    sql = re.compile(r"\b(UPDATE|INSERT\s+INTO|DELETE\s+FROM)\s+jobs_(job|attempt)\b", re.IGNORECASE)
    guilty = [name_of(path) for path in others() if any(sql.search(text) for text in texts(path))]
    assert guilty == []


def test_no_status_is_assigned_to_a_job_object() -> None:
    """A job object in memory is a copy; `job.status = …; job.save()` would overwrite what others wrote meanwhile."""
    guilty = [
        f"{name_of(path)}:{node.lineno}"
        for path in modules("jobs", "videos", "project")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if dotted(target).endswith("job.status")
    ]
    assert guilty == []


# -- whose clock -----------------------------------------------------------------------------------------------------


def test_no_decision_of_the_queue_asks_a_clock_but_the_databases() -> None:
    """Stopwatches (time.monotonic) are fine. Identifiers carry the time of the process that made them."""
    clocks = re.compile(
        r"(^|\.)(time\.time|time\.time_ns|timezone\.now|datetime\.now|datetime\.utcnow|date\.today)$"
    )
    guilty = [
        f"{name_of(path)}:{call.lineno} {name}"
        for path in modules("jobs")
        for name, call in calls(path)
        if clocks.search(name)
    ]
    assert [line for line in guilty if not line.startswith("jobs/ulid.py:")] == []


# -- settings --------------------------------------------------------------------------------------------------------


def test_every_setting_is_read_somewhere() -> None:
    readers = [path for path in modules("jobs") if path.name not in ("conf.py", "settings_schema.py")]
    read = {
        node.attr for path in readers for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)
    }
    assert [setting.name for setting in fields(JobsSettings) if setting.name not in read] == []


def test_settings_are_read_in_one_place() -> None:
    guilty = [name_of(path) for path in modules("jobs") if any(text == "JOBS" for text in texts(path))]
    assert guilty == ["jobs/checks.py", "jobs/conf.py"]


# -- shape -----------------------------------------------------------------------------------------------------------


def test_every_module_says_in_its_first_line_what_it_is() -> None:
    written = [path for path in modules("jobs", "videos", "project") if path.read_text()]
    assert [name_of(path) for path in written if not ast.get_docstring(tree_of(path))] == []


def test_no_module_is_too_long() -> None:
    """In one that is, a name is missing: split it."""
    lengths = {
        name_of(path): len(path.read_text().splitlines()) for path in modules("jobs", "videos", "project")
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_no_module_is_called_utils() -> None:
    names = {"utils.py", "util.py", "helpers.py", "misc.py", "common.py"}
    assert [
        name_of(path) for path in modules("jobs", "videos", "project", "tests") if path.name in names
    ] == []


def test_every_command_has_help() -> None:
    ours = {name: app for name, app in get_commands().items() if app in ("jobs", "videos", "project")}
    assert {"runworker", "enqueue", "jobs", "reconcile", "check_invariants", "prune_jobs"} <= set(ours)
    assert [name for name, app in ours.items() if not load_command_class(str(app), name).help] == []


@pytest.mark.django_db
def test_the_migrations_are_up_to_date() -> None:
    told = io.StringIO()
    call_command("makemigrations", "--check", "--dry-run", stdout=told)
    assert told.getvalue() == "No changes detected\n"


def test_every_folder_of_tests_runs_in_a_tier_and_none_twice() -> None:
    folders = {
        path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    placed = [
        *tiers.ON_BOTH,
        *tiers.ON_POSTGRESQL,
        *tiers.SLOW,
        *tiers.BROWSER,
        *tiers.STRANGERS,
        *tiers.HELPERS,
    ]
    assert sorted(placed) == sorted(folders)
    runs = [
        (part.database, folder) for parts in tiers.TIERS.values() for part in parts for folder in part.folders
    ]
    assert len(runs) == len(set(runs))
    assert {folder for _, folder in runs} == folders - {*tiers.HELPERS}
    assert not list((ROOT / "tests").glob("test_*.py")), "a test belongs in a folder"


def test_every_mutation_still_fits_the_code() -> None:
    for mutation in mutations.MUTATIONS:
        for edit in mutation.edits:
            found = (ROOT / edit.file).read_text().count(edit.old)
            assert found >= 1, f"{edit.file} has changed; look for another place for: {mutation.what}"


@pytest.mark.parametrize(
    ("codes", "some_chosen", "result"),
    [
        ([0, 0], False, 0),
        ([0, 1], False, 1),
        ([-9, 0], False, 1),
        ([0, tiers.NO_TEST_CHOSEN], False, 1),
        ([0, tiers.NO_TEST_CHOSEN], True, 0),
        ([tiers.NO_TEST_CHOSEN] * 2, True, tiers.NO_TEST_CHOSEN),
    ],
)
def test_a_tier_is_green_if_every_part_is(codes: list[int], some_chosen: bool, result: int) -> None:
    assert tiers.result_of(codes, some_chosen=some_chosen) == result


def test_a_module_with_computed_parameters_is_never_left_out_by_name() -> None:
    computed = ROOT / "tests/videos/pipeline/test_failures.py"
    assert "audio" not in tiers.without_bodies(computed.read_text())
    assert str(computed.relative_to(Path.cwd())) in tiers.modules_with("audio", ["tests/videos/pipeline"])
    assert "tests/queue/leases/test_leases.py" not in tiers.modules_with(
        "audio", ["tests/videos", "tests/queue"]
    )
