"""One OpenAPI document of all that the site offers, and a page that shows it: no scripts, nothing from elsewhere.

Each API contributes its part, from the module that has its URLs: `contribute("videos_api:openapi", describe)`. So the
queue knows none of the others, and what a site does not include is not in the document.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import NoReverseMatch, reverse
from ninja import NinjaAPI

VERSION = "1.0"
"""Of the contract: the first number changes when an old client would no longer work."""
INFO = {
    "title": "Sprocket",
    "version": VERSION,
    "description": "All that this site offers to programs: to remote workers, and to scripts of the staff.",
}

Describe = Callable[[str], dict[str, Any]]
"""Takes the path of the named view; returns an OpenAPI document of which `paths` and `components` count."""

_METHODS = ("get", "post", "put", "patch", "delete")
_COMPONENTS = ("schemas", "securitySchemes")
_parts: dict[str, Describe] = {}


def contribute(view_name: str, describe: Describe) -> None:
    """Add a part to the document of every site whose URLs include the view of this name."""
    _parts[view_name] = describe
    _compose.cache_clear()


def contribute_api(api: NinjaAPI) -> None:
    """The same for all operations of an API whose URLs have `openapi` beside them."""
    contribute(f"{api.urls_namespace}:openapi", partial(_describe_api, api))


def _describe_api(api: NinjaAPI, path: str) -> dict[str, Any]:
    return dict(api.get_openapi_schema(path_prefix=path.removesuffix("openapi.json")))


def document() -> dict[str, Any]:
    """All parts that this site includes, under the paths that it has chosen for them."""
    return _compose(tuple(_included()))


def _included() -> Iterator[tuple[str, str]]:
    for view_name in _parts:
        try:
            yield view_name, reverse(view_name)
        except NoReverseMatch:
            continue


@lru_cache(maxsize=8)
def _compose(included: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Once: ninja composes its part anew at each call."""
    whole: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": INFO,
        "paths": {},
        "components": {kind: {} for kind in _COMPONENTS},
    }
    for view_name, path in included:
        part = json.loads(json.dumps(_parts[view_name](path), default=str))
        whole["paths"].update(part["paths"])
        for kind in _COMPONENTS:
            _add(whole["components"][kind], part.get("components", {}).get(kind, {}), view_name)
    return whole


def _add(known: dict[str, Any], more: dict[str, Any], view_name: str) -> None:
    for name, definition in more.items():
        if known.setdefault(name, definition) != definition:
            raise ValueError(
                f"{view_name} describes {name!r} otherwise than another part; give it another name."
            )


def openapi(request: HttpRequest) -> HttpResponse:
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    return JsonResponse(document())


def page(request: HttpRequest) -> HttpResponse:
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    found = document()
    operations = list(_operations(found))
    context = {
        "info": found["info"],
        "areas": {
            area: [one for one in operations if one["area"] == area]
            for area in dict.fromkeys(one["area"] for one in operations)
        },
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
        "area": next(iter(operation.get("tags", [])), "other"),
        "access": [_way(ways[name]) for way in operation.get("security", []) for name in way],
        "parameters": [
            {**parameter, "text": words(parameter["schema"])} for parameter in operation.get("parameters", [])
        ],
        "body": _name(body) if body else "",
        "form": _fields(form) if (form := content.get("multipart/form-data", {}).get("schema")) else [],
        "bytes": "" if body else " or ".join(content),
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
    """Of the schema that it refers to, if only as one of several (anyOf; allOf where it has a default). Empty: none."""
    several = (*schema.get("anyOf", ()), *schema.get("allOf", ()))
    names = [str(one.get("$ref", "")).rpartition("/")[2] for one in (schema, *several)]
    return next(filter(None, names), "")


def _schema(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": schema.get("description", ""), "fields": _fields(schema)}


def _fields(schema: dict[str, Any]) -> list[dict[str, Any]]:
    required = schema.get("required", [])
    return [
        {
            "name": field,
            "required": field in required,
            "text": words(details),
            "description": details.get("description", ""),
        }
        for field, details in schema.get("properties", {}).items()
    ]


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
