"""Two releases share a database while one replaces the other, so a migration only adds (docs/upgrading.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, models
from django.db.migrations import operations as kinds
from django.db.migrations.loader import MigrationLoader
from django.db.models.fields import NOT_PROVIDED

BASELINE = {"jobs": "0005_worker_api", "videos": "0003_resumable_upload"}
"""The newest migrations of before the rule. It moves on when the release before the last is no longer in use."""

LOOKS = {
    "choices",
    "help_text",
    "verbose_name",
    "default",
    "validators",
    "editable",
    "blank",
    "error_messages",
}
"""What an AlterField may change: the database knows nothing of these."""

ADDITIVE = (
    kinds.CreateModel,
    kinds.AddIndex,
    kinds.RemoveIndex,
    kinds.RemoveConstraint,
    kinds.AlterModelOptions,
    kinds.AlterModelManagers,
    kinds.RunPython,
)


def newer() -> Iterator[Any]:
    """Every migration since the baseline."""
    loader = MigrationLoader(None)
    for app, name in BASELINE.items():
        assert (app, name) in loader.disk_migrations, "the baseline names a migration that does not exist"
        yield from (
            migration
            for (label, found), migration in sorted(loader.disk_migrations.items())
            if label == app and found > name
        )


def objections(operation: Any, state: Any, app: str) -> str | None:
    """Why the release before could not live with it; None when it can."""
    if isinstance(operation, kinds.SeparateDatabaseAndState):
        found = [objections(one, state, app) for one in operation.database_operations]
        return next((one for one in found if one), None)
    if isinstance(operation, kinds.AddField):
        return _about_column(operation.field, operation.name)
    if isinstance(operation, kinds.AlterField):
        before = state.models[app, operation.model_name_lower].fields[operation.name]
        changed = _differences(before, operation.field)
        return f"changes {operation.name} ({', '.join(sorted(changed))})" if changed else None
    return None if isinstance(operation, ADDITIVE) else f"is {type(operation).__name__}"


def _about_column(field: Any, name: str) -> str | None:
    """Code that does not know the column leaves it out of its INSERT."""
    if field.many_to_many or field.null or field.db_default is not NOT_PROVIDED:
        return None
    return f"adds {name}, NOT NULL and without db_default"


def _differences(before: Any, after: Any) -> set[str]:
    one, other = before.deconstruct()[1:], after.deconstruct()[1:]
    changed = {key for key in {*one[2], *other[2]} if one[2].get(key) != other[2].get(key)} - LOOKS
    if "null" in changed and after.null:
        changed.discard("null")
    if "max_length" in changed and (after.max_length or 0) > (before.max_length or 0):
        changed.discard("max_length")
    return changed | ({"its type"} if one[0] != other[0] else set())


def test_every_migration_since_the_last_release_only_adds() -> None:
    loader = MigrationLoader(None)
    refused = []
    for migration in newer():
        state = loader.project_state((migration.app_label, migration.name), at_end=False)
        for operation in migration.operations:
            if problem := objections(operation, state, migration.app_label):
                refused.append(f"{migration}: {problem}")
            operation.state_forwards(migration.app_label, state)
    assert refused == []


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        (kinds.RemoveField("job", "submitter"), "is RemoveField"),
        (kinds.DeleteModel("Worker"), "is DeleteModel"),
        (kinds.RenameField("job", "submitter", "sender"), "is RenameField"),
        (kinds.RenameModel("Worker", "Labourer"), "is RenameModel"),
        (kinds.RunSQL("DROP TABLE jobs_job"), "is RunSQL"),
        (kinds.AddConstraint("job", models.CheckConstraint(condition=models.Q(), name="x")), "is AddConstraint"),
        (kinds.AddField("job", "colour", models.TextField(default="")), "adds colour, NOT NULL and without db_default"),
        (kinds.AddField("job", "colour", models.TextField(default="", db_default="")), None),
        (kinds.AddField("job", "colour", models.TextField(null=True)), None),
        (kinds.AlterField("job", "submitter", models.IntegerField()), "changes submitter"),
        (kinds.CreateModel("Thing", []), None),
    ],
)  # fmt: skip
def test_the_rule_tells_what_removes_from_what_adds(operation: Any, problem: str | None) -> None:
    state = MigrationLoader(None).project_state()
    found = objections(operation, state, "jobs")
    assert found == problem or (problem and found and found.startswith(problem))


def column_of(operation: Any) -> str:
    field = operation.field.clone()
    field.set_attributes_from_name(operation.name)
    return str(field.column)


@pytest.mark.django_db
def test_columns_that_newer_releases_added_can_be_left_out_in_the_database_itself() -> None:
    added = [
        (f"{migration.app_label}_{operation.model_name_lower}", column_of(operation))
        for migration in newer()
        for operation in migration.operations
        if isinstance(operation, kinds.AddField)
    ]
    with connection.cursor() as cursor:
        for table, name in added:
            described = {
                column.name: column
                for column in connection.introspection.get_table_description(cursor, table)
            }
            column = described[name]
            assert column.null_ok or column.default is not None, f"{table}.{column.name}"
