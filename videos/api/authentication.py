"""Members of the staff: by a session with its CSRF token, or by a staff token. identity.py decides."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja.security.base import AuthBase
from ninja.security.http import HttpAuthBase

from jobs.api.authentication import SessionCookie
from videos.identity import identify

NOT_STAFF = (401, 403, 429, 503)
"""How those are refused who may not ask."""


class StaffBearer(HttpAuthBase):
    """`Authorization: Bearer <token>`; `manage.py stafftoken USER` makes one."""

    openapi_scheme = "bearer"

    def __init__(self, *permissions: str) -> None:
        super().__init__()
        self.permissions = permissions

    def __call__(self, request: HttpRequest) -> Any:
        return identify(request, *self.permissions) if "Authorization" in request.headers else None


class StaffSession(SessionCookie):
    """The session of a member of the staff; what changes something needs the CSRF token too (`X-CSRFToken`)."""

    def __init__(self, *permissions: str) -> None:
        super().__init__()
        self.permissions = permissions

    def __call__(self, request: HttpRequest) -> Any:
        return identify(request, *self.permissions)


def staff(*permissions: str) -> list[AuthBase]:
    """Who has one of these permissions."""
    return [StaffBearer(*permissions), StaffSession(*permissions)]
