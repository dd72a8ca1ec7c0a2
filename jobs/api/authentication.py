"""Who asks: a worker with its key, a machine with the admin secret, staff. Never by the query string."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare
from ninja.security import APIKeyHeader, HttpBearer
from ninja.security.base import AuthBase
from ninja.utils import check_csrf

from jobs import conf, throttle, worker_keys
from jobs.credentials import address_of, refuse_wrong, staff_with
from jobs.models import Worker, WorkerKind
from jobs.rate_limits import Limit
from jobs.refusal import Refusal
from jobs.worker_keys import Verdict

KEY_HEADER = "X-Worker-API-Key"


class Bearer(HttpBearer):
    """As ninja's, which in DEBUG writes foreign credentials into the log."""

    def __call__(self, request: HttpRequest) -> Any:
        scheme, _, token = request.headers.get(self.header, "").partition(" ")
        return self.authenticate(request, token.strip()) if scheme.lower() == self.openapi_scheme else None


class SessionCookie(AuthBase):
    """For the document: ninja's own would look at the cookie itself, which is for the site's middleware to do."""

    openapi_type = "apiKey"
    openapi_in = "cookie"
    openapi_name = settings.SESSION_COOKIE_NAME


# -- workers -----------------------------------------------------------------------------------------------------------

_WRONG = {
    Verdict.UNKNOWN: ("key_unknown", "This key belongs to nobody."),
    Verdict.REVOKED: ("key_revoked", "This key was revoked: stop, and ask an administrator for another."),
    Verdict.EXPIRED: ("key_expired", "This key has expired: stop, and ask an administrator for another."),
}


def _worker_with(request: HttpRequest, key: str) -> Worker:
    other = request.headers.get(KEY_HEADER)
    if other is not None and other.strip() != key:
        raise refuse_wrong(request, "key_unknown", "Two different keys were sent.")
    worker, verdict = worker_keys.examine(key)
    if worker is None or worker.kind != WorkerKind.REMOTE:
        raise refuse_wrong(request, *_WRONG.get(verdict, _WRONG[Verdict.UNKNOWN]))
    return worker


class WorkerBearer(Bearer):
    """`Authorization: Bearer <key>`"""

    def authenticate(self, request: HttpRequest, token: str) -> Worker:
        return _worker_with(request, token)


class WorkerKeyHeader(APIKeyHeader):
    """`X-Worker-API-Key: <key>`, where a proxy keeps Authorization for itself."""

    param_name = KEY_HEADER

    def authenticate(self, request: HttpRequest, key: str | None) -> Worker | None:
        return None if key is None else _worker_with(request, key.strip())


WORKER = [WorkerBearer(), WorkerKeyHeader()]


class AdminSecret(APIKeyHeader):
    """`X-Admin-Secret: <JOBS["WORKER_ADMIN_SECRET"]>`. A person chose it: guesses count before they are judged."""

    param_name = "X-Admin-Secret"

    def authenticate(self, request: HttpRequest, key: str | None) -> bool:
        secret = conf.current().worker_admin_secret
        if not secret:
            raise Refusal(
                503,
                "registration_off",
                "Registration is off: JOBS['WORKER_ADMIN_SECRET'] is not set. The admin can issue a key.",
            )
        throttle.take(Limit("registration", conf.current().registration_rate), address_of(request))
        if key is None or not constant_time_compare(key, secret):
            raise Refusal(401, "wrong_secret", "X-Admin-Secret is missing or wrong.")
        return True


# -- staff -------------------------------------------------------------------------------------------------------------


class StaffSession(SessionCookie):
    """The session of a member of the staff; what changes something needs the CSRF token too (`X-CSRFToken`)."""

    def __call__(self, request: HttpRequest) -> Any:
        user = getattr(request, "user", None)
        if user is None or not (user.is_active and user.is_staff):
            return None
        if check_csrf(request):
            raise Refusal(403, "csrf", "Send the CSRF token of the session as X-CSRFToken.")
        return user


class StaffBearer(Bearer):
    """`Authorization: Bearer <token>`; `manage.py stafftoken USER` makes one."""

    def authenticate(self, request: HttpRequest, token: str) -> Any:
        request.user = staff_with(request, token)
        return request.user


STAFF = [StaffBearer(), StaffSession()]
