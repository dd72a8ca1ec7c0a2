"""The stream of events in the API's document. Its view is in jobs/live and needs no django-ninja."""

from __future__ import annotations

from typing import Any

from jobs.api.authentication import STAFF
from jobs.live.offers import all_offers

_TEXT = {"type": "string"}
_REFUSALS = {
    "400": "Nothing to follow, or what is no id",
    "401": "Not signed in, or a wrong token",
    "403": "A permission is missing",
    "429": "Too many wrong tokens",
    "503": "As many streams are open as one process serves",
}


def describe(path: str) -> dict[str, Any]:
    """For the document: GET `path`."""
    operation = {
        "operationId": "follow_events",
        "tags": ["events"],
        "summary": "Follow what changes",
        "description": (
            "Server-Sent Events: first the whole state, then what changes, as one flat JSON object of names and values "
            "(`job.<id>.percent`); null: it is gone. With `Accept: application/json` the present state alone. "
            "Each thing takes the permission to see it."
        ),
        "security": [{type(way).__name__: []} for way in STAFF],
        "parameters": [
            *(
                _parameter("query", offer.parameter, offer.help, {"type": "array", "items": _TEXT})
                for offer in all_offers()
            ),
            _parameter("header", "Last-Event-ID", "the id of the last event before a lost connection", _TEXT),
        ],
        "responses": {
            "200": {
                "description": "OK",
                "content": {
                    "text/event-stream": {"schema": _TEXT},
                    "application/json": {"schema": {"type": "object"}},
                },
            },
            **{
                status: {
                    "description": description,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
                for status, description in _REFUSALS.items()
            },
        },
    }
    schemes = {type(way).__name__: way.openapi_security_schema for way in STAFF}
    return {"paths": {path: {"get": operation}}, "components": {"securitySchemes": schemes}}


def _parameter(where: str, name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"in": where, "name": name, "required": False, "description": description, "schema": schema}
