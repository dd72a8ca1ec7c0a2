"""The staff, as the API of the queue meets them: questions, pages, tokens."""

from __future__ import annotations

from typing import Any

from django.test import Client

from tests.support.remote.remote_client import good


def get(client: Client, path: str, **query: Any) -> Any:
    return client.get(f"/api/{path}", query)


def walk(client: Client, path: str, name: str, **query: Any) -> list[dict[str, Any]]:
    """All pages, one after the other."""
    rows: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = good(get(client, path, cursor=cursor, **query))
        rows += page[name]
        cursor = page["next"]
        if cursor is None:
            return rows


def bearer(token: str) -> Client:
    return Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {token}"})
