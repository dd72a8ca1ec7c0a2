"""Settings as a typed dataclass: a dictionary in the site's settings, parsed, checked, read live.

A field says how a value is read and what it is for: `claim_duration: timedelta = duration("30m", "how long …")`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from datetime import timedelta
from typing import Any, Generic, Self, TypeVar

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured

from jobs.alerts.target import Target
from jobs.exceptions import BadValue
from jobs.versions import parse_version

T = TypeVar("T")

_UNITS = {"": 1, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


LONGEST = timedelta(days=100 * 366)


def parse_duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    elif isinstance(value, str) and (match := re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", value.strip())):
        number, unit = match.groups()
        if unit not in _UNITS:
            raise BadValue(f"{value!r} has an unknown unit; use ms, s, m, h or d", code="unknown_unit")
        seconds = float(number) * _UNITS[unit]
    else:
        raise BadValue(
            f"{value!r} is not a duration such as 90, '30s', '5m', '2h' or '30d'", code="not_a_duration"
        )
    if not 0 < seconds <= LONGEST.total_seconds():
        raise BadValue(
            f"{value!r} must be longer than zero and at most a hundred years", code="duration_out_of_range"
        )
    return max(timedelta(seconds=seconds), timedelta.resolution)


def whole_number(minimum: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        if isinstance(value, bool) or not re.fullmatch(r"-?\d+", str(value).strip().replace("_", "")):
            raise BadValue(f"{value!r} is not a whole number", code="not_a_whole_number")
        number = int(value)
        if number < minimum:
            raise BadValue(f"{number} is below the minimum of {minimum}", code="below_minimum")
        return number

    return parse


def _parse_bool(value: Any) -> bool:
    words = {
        "true": True,
        "1": True,
        "yes": True,
        "on": True,
        "false": False,
        "0": False,
        "no": False,
        "off": False,
    }
    if str(value).strip().lower() not in words:
        raise BadValue(f"{value!r} is neither true nor false", code="not_a_flag")
    return words[str(value).strip().lower()]


def duration(default: str, help: str) -> timedelta:
    return field(default=parse_duration(default), metadata={"parse": parse_duration, "help": help})


def number(default: int, help: str, minimum: int = 1) -> int:
    return field(default=default, metadata={"parse": whole_number(minimum), "help": help})


def flag(default: bool, help: str) -> bool:
    return field(default=default, metadata={"parse": _parse_bool, "help": help})


def text(default: str, help: str, *, choices: tuple[str, ...] = ()) -> str:
    def parse(value: Any) -> str:
        if not isinstance(value, str) or (choices and value not in choices):
            raise BadValue(
                f"{value!r} is not one of {', '.join(choices)}" if choices else f"{value!r} is not text",
                code="not_a_choice" if choices else "not_text",
            )
        return value

    return field(default=default, metadata={"parse": parse, "help": help})


ALL = "all"


def names(known: tuple[str, ...], help: str) -> frozenset[str]:
    """Some of the known names: a list, or a text with commas between them; "all" (the default) is all of them."""

    def parse(value: Any) -> frozenset[str]:
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, list | tuple | set | frozenset) or not all(
            isinstance(n, str) for n in given
        ):
            raise BadValue(f"{value!r} is neither a list of names nor a text with commas", code="not_names")
        chosen = {name.strip() for name in given} - {""}
        if not chosen:
            raise BadValue("it names nothing", code="no_names")
        if unknown := sorted(chosen - {*known, ALL}):
            guess = difflib.get_close_matches(unknown[0], known, n=1)
            hint = f"did you mean {guess[0]}?" if guess else f"known: {ALL}, {', '.join(known)}"
            raise BadValue(f"{unknown[0]!r} is unknown; {hint}", code="unknown_name")
        return frozenset(known if ALL in chosen else chosen)

    return field(default=frozenset(known), metadata={"parse": parse, "help": help})


def secret(help: str, *, shortest: int) -> str:
    """Empty, or long enough that nobody guesses it. Complaints never quote it."""

    def parse(value: Any) -> str:
        if not isinstance(value, str) or 0 < len(value) < shortest or not value.isascii():
            raise BadValue(
                f"a secret is empty or at least {shortest} ASCII characters long", code="bad_secret"
            )
        return value

    return field(default="", repr=False, metadata={"parse": parse, "help": help})


def webhook(help: str) -> str:
    """Empty, or an address to post to. Its path is a secret: complaints never quote it."""

    def parse(value: Any) -> str:
        if not isinstance(value, str):
            raise BadValue("a webhook's URL is text", code="not_text")
        if value:
            Target.parse(value)
        return value

    return field(default="", repr=False, metadata={"parse": parse, "help": help})


def address(help: str, *, schemes: tuple[str, ...]) -> str:
    """Empty, or a URL. It may hold a password: complaints never quote it."""

    def parse(value: Any) -> str:
        if not isinstance(value, str) or (value and not value.startswith(tuple(f"{s}://" for s in schemes))):
            raise BadValue(
                f"it must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}", code="bad_scheme"
            )
        return value

    return field(default="", metadata={"parse": parse, "help": help})


def release(help: str) -> str:
    """Empty, or a version such as 1.2.3."""

    def parse(value: Any) -> str:
        if not isinstance(value, str) or (value and parse_version(value) is None):
            raise BadValue(f"{value!r} is not a version such as 1.2.3", code="not_a_version")
        return value

    return field(default="", metadata={"parse": parse, "help": help})


def labels(default: Mapping[str, int], help: str) -> tuple[tuple[str, int], ...]:
    """Names for numbers, in the order of the numbers. The names of the default, in their order, are always needed."""
    needed = tuple(default)
    number = whole_number(-(2**31))

    def parse(value: Any) -> tuple[tuple[str, int], ...]:
        if isinstance(value, str):
            value = {name: own for name, _, own in (part.partition("=") for part in value.split(","))}
        if not isinstance(value, Mapping):
            raise BadValue(f"{value!r} is not a dictionary such as {dict(default)}", code="not_labels")
        given = {str(name).strip(): number(own) for name, own in value.items()}
        for name, own in given.items():
            if not re.fullmatch(r"[a-z][a-z0-9_-]{0,29}", name):
                raise BadValue(
                    f"{name!r} is not a label: use lower-case letters, digits, - and _, at most 30",
                    code="bad_label",
                )
            if own >= 2**31:
                raise BadValue(f"{own} is above the maximum of {2**31 - 1}", code="above_maximum")
        if missing := [name for name in needed if name not in given]:
            raise BadValue(f"the label {missing[0]!r} is missing", code="label_missing")
        if sorted(needed, key=given.__getitem__) != list(needed):
            raise BadValue(
                f"the numbers of {', '.join(needed)} must go up in this order", code="labels_out_of_order"
            )
        if len(set(given.values())) < len(given):
            raise BadValue("two labels have the same number", code="same_number")
        return tuple(sorted(given.items(), key=lambda label: label[1]))

    return field(default=tuple(default.items()), metadata={"parse": parse, "help": help})


class Problem(str):
    """One sentence about what is wrong with a setting, with a code for programs and tests."""

    code: str
    setting: str
    """Which one; empty: none alone."""

    def __new__(cls, text: str, *, code: str, setting: str = "") -> Self:
        problem = super().__new__(cls, text)
        problem.code, problem.setting = code, setting
        return problem


class SettingsReader(Generic[T]):
    """Reads one dictionary (`JOBS`, `VIDEOS`) as a dataclass of settings."""

    def __init__(self, name: str, schema: type[T], contradictions: Callable[[T], Sequence[str]]) -> None:
        self.name = name
        self.schema = schema
        self._contradictions = contradictions
        self._fields = {f.name.upper(): f for f in fields(schema)}  # type: ignore[arg-type]
        self._cached: tuple[dict[str, Any], T] | None = None

    def current(self) -> T:
        """The settings as they are now; raises ImproperlyConfigured with every problem named."""
        raw = getattr(django_settings, self.name, {})
        if self._cached is None or self._cached[0] != raw:
            problems = self.find_problems(raw)
            if problems:
                raise ImproperlyConfigured(" ".join(problems))
            self._cached = (dict(raw), self._read(raw))
        return self._cached[1]

    def find_problems(self, raw: Any) -> list[Problem]:
        """What is wrong with such a dictionary, one sentence each; empty when it is fine."""
        if not isinstance(raw, dict):
            return [Problem(f"{self.name} must be a dictionary.", code="not_a_dictionary")]
        problems = [problem for key, value in raw.items() if (problem := self._problem(key, value))]
        return problems or [
            found if isinstance(found, Problem) else Problem(found, code="contradiction")
            for found in self._contradictions(self._read(raw))
        ]

    def _problem(self, key: Any, value: Any) -> Problem | None:
        if key not in self._fields:
            guess = difflib.get_close_matches(str(key), self._fields, n=1)
            hint = f"Did you mean {guess[0]}?" if guess else f"Known: {', '.join(sorted(self._fields))}."
            return Problem(
                f"{self.name}[{key!r}] is not a setting. {hint}", code="unknown_setting", setting=str(key)
            )
        try:
            self._fields[key].metadata["parse"](value)
        except ValueError as error:
            code = getattr(error, "code", BadValue.code)
            return Problem(f"{self.name}[{key!r}]: {error}.", code=code, setting=key)
        return None

    def _read(self, raw: dict[str, Any]) -> T:
        return self.schema(
            **{key.lower(): self._fields[key].metadata["parse"](value) for key, value in raw.items()}
        )
