"""Whether every rule of queue and pipeline holds, asked in one statement instead of seventy: after each test, and where
somebody asks after each of thousands of steps.

On an empty database no rule has anything to say, and what each asks until then is written down. Where none of that
finds a row, the rule would go the same way again; only those whose questions do find one are really looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from django.db import connection

from jobs import database
from jobs.invariants import RULES, Rule
from tests.support import beside

Question = tuple[str, tuple[Any, ...]]


@dataclass
class _Look:
    questions: list[tuple[str, Question]] = field(default_factory=list)
    """What the rules ask, each with the text of its rule."""

    @property
    def statement(self) -> str:
        return "SELECT " + ", ".join(f"EXISTS({sql})" for _, (sql, _) in self.questions)

    @property
    def parameters(self) -> list[Any]:
        return [value for _, (_, parameters) in self.questions for value in parameters]


_look = _Look()


def learn() -> None:
    """Once, before any test has written a row."""
    _look.questions = [(text, asked) for text, check in RULES.items() for asked in _questions_of(check)]
    if connection.vendor == "postgresql":
        _write_function()


def _write_function() -> None:
    """PostgreSQL keeps the plans of a function: planning a hundred questions takes several times as long as asking."""
    with connection.cursor() as cursor:
        session = connection.connection
        asked = [psycopg.ClientCursor(session).mogrify(sql, values) for _, (sql, values) in _look.questions]
        answers = ", ".join(f"EXISTS({question})" for question in asked)
        cursor.execute(
            "CREATE OR REPLACE FUNCTION quick_look() RETURNS boolean[] LANGUAGE plpgsql SET enable_nestloop = off "
            f"AS $look$ BEGIN RETURN ARRAY[{answers}]; END $look$"
        )


def broken_at_a_glance() -> list[str]:
    """What broken_rules() says, in a shorter way."""
    if connection.vendor == "postgresql":
        fetch = database.fetch if connection.in_atomic_block else beside.execute
        ((answers,),) = fetch("SELECT quick_look()")
    else:
        (answers,) = database.fetch(_look.statement, _look.parameters)
    suspects = dict.fromkeys(text for (text, _), found in zip(_look.questions, answers, strict=True) if found)
    return [f"{text}: {subject}" for text in suspects for subject in RULES[text]()]


def _questions_of(check: Rule) -> list[Question]:
    asked: list[Question] = []

    def write_down(
        execute: Callable[..., Any], sql: str, params: Sequence[Any] | None, many: bool, context: Any
    ) -> Any:
        asked.append((sql.strip(), tuple(params or ())))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(write_down):
        said = list(check())
    assert said == [], "the database is not empty"
    assert asked
    return asked
