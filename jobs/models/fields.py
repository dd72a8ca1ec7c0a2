"""Column types of the queue, and the lookup that hot statements use."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, Lookup

from jobs import database
from jobs.ulid import new_ulid


class BytewiseCharField(CharField):  # type: ignore[type-arg]
    """Compared byte by byte: on PostgreSQL the collation is C, whatever the database's own is."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        parameters = dict(super().db_parameters(connection))
        if connection.vendor == "postgresql":
            parameters["collation"] = "C"
        return parameters


class ULIDField(BytewiseCharField):
    """26 characters."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["max_length"] = 26
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:
        name, path, args, kwargs = super().deconstruct()
        del kwargs["max_length"]
        return name, path, args, kwargs

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        # The same type by its long name: for one that starts with "varchar" Django adds a second index, for LIKE.
        return "character varying(26)" if connection.vendor == "postgresql" else super().db_type(connection)


def ulid_primary_key() -> ULIDField:
    return ULIDField(primary_key=True, default=new_ulid, editable=False)


@ULIDField.register_lookup
class Among(Lookup):
    """`pk__among=frozenset(ids)`: as `pk__in`, with one parameter for the whole set.

    A set, because Django looks at every item of a list before it comes here.
    """

    lookup_name = "among"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        column, params = self.process_lhs(compiler, connection)
        condition, ids = database.among(column, self.rhs, vendor=connection.vendor)
        return condition, (*params, *ids)
