"""The dashboard as its readers get it: the page, its text, and the state that its stream carries."""

from __future__ import annotations

import html
import re
from typing import Any

from django.test import Client

PAGE = "/admin/jobs/dashboard/"
SWITCH = "/admin/jobs/dashboard/types/"


def words_of(page: str) -> str:
    """What somebody reads."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def show(client: Client, address: str = PAGE) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def state_of(client: Client, query: str = "?dashboard") -> dict[str, Any]:
    answer = client.get(f"{PAGE}live/{query}", headers={"Accept": "application/json"})
    assert answer.status_code == 200
    state: dict[str, Any] = answer.json()
    return state
