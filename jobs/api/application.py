"""The API of the queue as one thing: its operations and its errors."""

from __future__ import annotations

import logging
from typing import Any

from django.apps import apps
from ninja import NinjaAPI

from jobs.api import errors, files, worker
from jobs.api.bodies import StrictParser


class QueueAPI(NinjaAPI):
    def get_openapi_operation_id(self, operation: Any) -> str:
        area = operation.view_func.__module__.rpartition(".")[2]
        return f"{area}_{operation.view_func.__name__}"


def _make() -> NinjaAPI:
    api = QueueAPI(
        openapi_url=None,
        docs_url=None,
        urls_namespace="jobs_api",
        parser=StrictParser(),
    )
    errors.install(api, meaning=errors.meaning_in_queue, log=logging.getLogger("jobs.api"))
    api.add_router("worker/", worker.router)
    api.add_router("worker/", files.router)
    if apps.is_installed("django.contrib.admin"):  # whose permissions and log it uses
        from jobs.api import staff

        api.add_router("", staff.router)
    return api


api = _make()
