"""How a request is refused over HTTP: always {"error": code, "detail": text}, with the status that fits.

This part needs no django-ninja; jobs/api/errors.py has the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpResponse, JsonResponse

from jobs.exceptions import TooManyTries


class Refusal(Exception):
    def __init__(
        self, status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers = status, code, detail, headers or {}

    def as_response(self) -> HttpResponse:
        problem = {"error": self.code, "detail": self.detail}
        return JsonResponse(problem, status=self.status, headers=dict(self.headers))


def not_authenticated(code: str, detail: str) -> Refusal:
    return Refusal(401, code, detail, headers={"WWW-Authenticate": "Bearer"})


def too_many_tries(error: TooManyTries) -> Refusal:
    return Refusal(429, "too_many_tries", str(error), headers={"Retry-After": str(error.retry_after)})
