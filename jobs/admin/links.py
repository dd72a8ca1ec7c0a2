"""What a job is about, as links; other apps know that of their own job types.

    @job_links
    def links_of_invoice(job: Job) -> Iterable[Link]: …

in the module job_links.py of an installed app, which is imported when the first page of a job is shown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from django.utils.module_loading import autodiscover_modules

from jobs.models import Job

log = logging.getLogger("jobs.admin")


@dataclass(frozen=True)
class Link:
    title: str
    address: str


Provider = Callable[[Job], Iterable[Link]]
_providers: list[Provider] = []


def job_links(provider: Provider) -> Provider:
    _providers.append(provider)
    return provider


@cache
def _discover() -> None:
    autodiscover_modules("job_links")


def links_of(job: Job) -> list[Link]:
    _discover()
    found: list[Link] = []
    for provider in _providers:
        try:
            found += provider(job)
        except Exception:  # a payload that is not what the provider thinks must not hide the job
            log.exception("no links for job %s from %s", job.pk, provider.__module__)
    return found
