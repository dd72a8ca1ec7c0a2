"""Finding jobs: by id, workflow, correlation id or unique key through their indexes, by payload within the window."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, TextField
from django.db.models.functions import Cast

from jobs import database
from jobs.admin.window import Chosen, Window, find_window
from jobs.payloads import storable

MOST = 5_000
"""Jobs that have one correlation id and are shown."""
_START_OF_AN_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{6,26}")


@dataclass(frozen=True)
class Found:
    """What a search has led to: certain jobs, or else a text to look for in the payloads of a window."""

    ids: tuple[str, ...]
    text: str
    window: Window

    @property
    def is_exact(self) -> bool:
        return bool(self.ids)

    def applied_to(self, jobs: Any) -> Any:
        if self.is_exact:
            return jobs.filter(pk__among=self.ids)
        text = Cast("payload", TextField())
        said = Q()
        for form in _as_stored(self.text):
            said |= Q(payload_text__icontains=form)
        return self.window.applied_to(jobs.alias(payload_text=text)).filter(said)


def find(term: str, chosen: Chosen) -> Found:
    term = storable(term).strip()[:500]
    ids = _find_by_index(term)
    return Found(ids, term, Window(is_whole=True) if ids else find_window(chosen))


def _find_by_index(term: str) -> tuple[str, ...]:
    one = "id = %s"
    params = [term]
    if _START_OF_AN_ID.fullmatch(term.upper()):
        one, params = "id >= %s AND id < %s", [term.upper(), term.upper() + "~"]
    ways = {
        "id": one,
        "workflow_id": "workflow_id = %s",
        "parent_id": "parent_id = %s",
        "correlation_id": "correlation_id = %s AND NOT (correlation_id = id)",
        "unique_key": "unique_key = %s AND status IN ('waiting', 'pending', 'processing')",
    }
    # In the order of the index, so that no planner prefers to read the table.
    parts = " UNION ".join(
        f"SELECT id FROM (SELECT id FROM jobs_job WHERE {way} ORDER BY {order} LIMIT {MOST}) AS part"
        for order, way in ways.items()
    )
    rows = database.fetch(f"SELECT id FROM ({parts}) AS found LIMIT {MOST}", [*params, *[term] * 4])
    return tuple(row[0] for row in rows)


def _as_stored(text: str) -> set[str]:
    """The text as people write it, and as JSON has it on each of the databases."""
    return {text, *(json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))}
