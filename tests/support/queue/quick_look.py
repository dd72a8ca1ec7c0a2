"""Whether every rule of queue and pipeline holds, asked in one statement instead of seventy: after each test, and where
somebody asks after each of thousands of steps.

On an empty database no rule has anything to say, and what each asks until then is written down. Where none of that
finds a row, the rule would go the same way again; only those whose questions do find one are really looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from jobs import database
from jobs.invariants import RULES, Rule

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


def broken_at_a_glance() -> list[str]:
    """What broken_rules() says, in a shorter way."""
    with database.joins_in_one_pass():
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
