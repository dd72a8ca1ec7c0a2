"""The OpenAPI document, and a page that shows it: no scripts, nothing from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.shortcuts import render
from django.templatetags.static import static

from jobs.api.application import api

_METHODS = ("get", "post", "put", "patch", "delete")


def openapi(request: HttpRequest) -> HttpResponse:
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    return JsonResponse(document(request.path.removesuffix("openapi.json")))


@lru_cache(maxsize=8)
def document(prefix: str) -> dict[str, Any]:
    """Under this path. Rendered once: ninja composes it anew at each call."""
    text: str = json.dumps(api.get_openapi_schema(path_prefix=prefix), default=str)
    return dict(json.loads(text))


def page(request: HttpRequest) -> HttpResponse:
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    found = document(request.path.removesuffix("docs"))
    context = {
        "info": found["info"],
        "operations": list(_operations(found)),
        "schemas": [_schema(name, schema) for name, schema in sorted(_schemas(found).items())],
        "document": request.path.removesuffix("docs") + "openapi.json",
    }
    response = render(request, "jobs/api.html", context)
    response["Content-Security-Policy"] = _policy()
    return response


def _policy() -> str:
    """Nothing but the style sheet, from wherever the site keeps its static files."""
    origin = urlsplit(static("jobs/api.css"))
    styles = f"{origin.scheme or 'https'}://{origin.netloc}" if origin.netloc else "'self'"
    return f"default-src 'none'; style-src {styles}; base-uri 'none'; form-action 'none'"


def _schemas(found: dict[str, Any]) -> dict[str, Any]:
    schemas: dict[str, Any] = found["components"]["schemas"]
    return schemas


def _operations(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    ways = found["components"].get("securitySchemes", {})
    for path, methods in found["paths"].items():
        for method in _METHODS:
            if method in methods:
                yield _operation(path, method, methods[method], ways)


def _operation(path: str, method: str, operation: dict[str, Any], ways: dict[str, Any]) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    body = content.get("application/json", {}).get("schema")
    return {
        "id": operation["operationId"],
        "path": path,
        "method": method.upper(),
        "summary": operation["summary"],
        "description": operation.get("description", ""),
        "tags": operation.get("tags", []),
        "access": [_way(ways[name]) for way in operation.get("security", []) for name in way],
        "parameters": [
            {**parameter, "text": words(parameter["schema"])} for parameter in operation["parameters"]
        ],
        "body": _name(body) if body else "",
        "bytes": "" if body else ", ".join(content),
        "answers": [
            {"status": status, "text": answer["description"], "schema": _name(_content(answer))}
            for status, answer in operation["responses"].items()
        ],
    }


def _content(answer: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def _way(scheme: dict[str, Any]) -> str:
    if scheme["type"] == "http":
        return "Authorization: Bearer …"
    return f"{scheme['name']}: …" if scheme["in"] == "header" else f"the cookie {scheme['name']}"


def _name(schema: dict[str, Any]) -> str:
    """Of the schema that is referred to; one with a default is wrapped into `allOf`."""
    (referring,) = schema.get("allOf", [schema])
    return str(referring.get("$ref", "")).rpartition("/")[2]


def _schema(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    required = schema.get("required", [])
    return {
        "name": name,
        "description": schema.get("description", ""),
        "fields": [
            {
                "name": field,
                "required": field in required,
                "text": words(details),
                "description": details.get("description", ""),
            }
            for field, details in schema.get("properties", {}).items()
        ],
    }


def words(schema: dict[str, Any]) -> str:
    """A schema in a few words: "integer 1 – 256", "list of text", "one of idle, busy"."""
    if "$ref" in schema:
        return _name(schema)
    for several in ("anyOf", "allOf"):
        if several in schema:
            return " or ".join(words(one) for one in schema[several])
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(value) for value in schema["enum"])
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {words(schema.get('items', {}))}"
    text = {"string": "text", "object": "object", "null": "null"}.get(kind, str(kind))
    if "format" in schema:
        text = str(schema["format"])
    if "minimum" in schema or "maximum" in schema:
        text += f" {schema.get('minimum', '')} – {schema.get('maximum', '')}"
    if "maxLength" in schema:
        text += f", at most {schema['maxLength']} characters"
    return f"{text} matching {schema['pattern']}" if "pattern" in schema else text
