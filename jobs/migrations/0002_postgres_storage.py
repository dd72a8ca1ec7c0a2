"""How PostgreSQL stores the two busy tables: room for updates in place, and a vacuum that keeps up with the churn."""

from typing import Any

from django.db import migrations

JOB = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0"
ATTEMPT = "fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000"


def tune(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"ALTER TABLE jobs_job SET ({JOB})")
        schema_editor.execute(f"ALTER TABLE jobs_attempt SET ({ATTEMPT})")


def untune(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        for table, options in (("jobs_job", JOB), ("jobs_attempt", ATTEMPT)):
            names = ", ".join(option.split(" = ")[0] for option in options.split(", "))
            schema_editor.execute(f"ALTER TABLE {table} RESET ({names})")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]

    operations = [migrations.RunPython(tune, untune)]
