"""Frozen dataclasses to JSON and back, with exact fractions: what a job's payload can carry."""

import dataclasses
import hashlib
import json
import types
import typing
from fractions import Fraction
from typing import Any, TypeVar

T = TypeVar("T")


def to_json(value: Any) -> Any:
    """Plain lists, dicts, strings and numbers; a Fraction becomes "30000/1001"."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} cannot be written as JSON here")


def from_json(kind: type[T], data: Any) -> T:
    """The dataclass that to_json() wrote."""
    return typing.cast(T, _read(kind, data))


def _read(kind: Any, data: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin is tuple:
        item = typing.get_args(kind)[0]
        return tuple(_read(item, entry) for entry in data)
    if origin in (types.UnionType, typing.Union):
        if data is None:
            return None
        return _read(next(k for k in typing.get_args(kind) if k is not type(None)), data)
    if kind is Fraction:
        return Fraction(data)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{f.name: _read(hints[f.name], data[f.name]) for f in dataclasses.fields(kind)})
    return data


def digest(value: Any) -> str:
    """SHA-256 of the value's JSON, the same whenever and wherever it is taken."""
    text = json.dumps(to_json(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
