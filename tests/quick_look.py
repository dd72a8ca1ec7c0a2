"""All rules of jobs.invariants in one statement, for a test that asks after each of thousands of steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.db.models import QuerySet

from jobs import database
from jobs.invariants import RULES, Rule


def is_any_rule_broken() -> bool:
    look = _compiled(database.alias())
    (answers,) = database.fetch(f"SELECT {', '.join(look.conditions)}", look.params)
    return any(answers) or any(list(check()) for check in look.in_python)


@dataclass
class _Look:
    conditions: list[str] = field(default_factory=list)
    params: list[Any] = field(default_factory=list)
    in_python: list[Rule] = field(default_factory=list)


@cache
def _compiled(alias: str) -> _Look:
    look = _Look()
    for check in RULES.values():
        if check.__module__ != "jobs.invariants":
            continue
        subjects = check()
        if isinstance(subjects, QuerySet):
            sql, params = subjects.query.clone().get_compiler(alias).as_sql()
            look.conditions.append(f"EXISTS ({sql})")
            look.params += params
        else:
            look.in_python.append(check)
    return look
