"""Column types of the queue."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField

from jobs.ulid import new_ulid


class ULIDField(CharField):  # type: ignore[type-arg]
    """26 characters, compared byte by byte: on PostgreSQL the collation is C, whatever the database's own is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["max_length"] = 26
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:
        name, path, args, kwargs = super().deconstruct()
        del kwargs["max_length"]
        return name, path, args, kwargs

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        parameters = dict(super().db_parameters(connection))
        if connection.vendor == "postgresql":
            parameters["collation"] = "C"
        return parameters


def ulid_primary_key() -> ULIDField:
    return ULIDField(primary_key=True, default=new_ulid, editable=False)
