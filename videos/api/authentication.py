"""Members of the staff: by a session with its CSRF token, or by a staff token. identity.py decides."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja.security import APIKeyCookie, HttpBearer
from ninja.security.base import AuthBase

from videos.identity import identify


class StaffBearer(HttpBearer):
    """`Authorization: Bearer <token>`; `manage.py stafftoken USER` makes one."""

    def __init__(self, *permissions: str) -> None:
        super().__init__()
        self.permissions = permissions

    def __call__(self, request: HttpRequest) -> Any:
        return identify(request, *self.permissions) if "Authorization" in request.headers else None

    def authenticate(self, request: HttpRequest, token: str) -> Any:
        raise NotImplementedError


class StaffSession(APIKeyCookie):
    """The session of a member of the staff; what changes something needs the CSRF token too (`X-CSRFToken`)."""

    param_name = settings.SESSION_COOKIE_NAME

    def __init__(self, *permissions: str) -> None:
        super().__init__()
        self.permissions = permissions

    def __call__(self, request: HttpRequest) -> Any:
        return identify(request, *self.permissions)

    def authenticate(self, request: HttpRequest, key: str | None) -> Any:
        raise NotImplementedError


def staff(*permissions: str) -> list[AuthBase]:
    """Who has one of these permissions."""
    return [StaffBearer(*permissions), StaffSession(*permissions)]
