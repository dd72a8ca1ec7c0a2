"""The dashboard's state as live topics: texts and numbers where an element stays, HTML where rows come and go.

Nothing in a state depends on when it was read, or every reading would be news: pages tell times by themselves.
"""

from __future__ import annotations

from functools import partial

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from jobs.dashboard.addresses import Addresses
from jobs.dashboard.reading import Reading
from jobs.live import State, Topic

CHARTS_EVERY = 2.0


def dashboard_topics(site: str, *, workers: bool, types: bool, breakers: bool = False) -> list[Topic]:
    """For somebody who may see jobs, and perhaps these; on the admin site of this name."""
    addresses = Addresses(site)
    topics = [
        *summary_topics(site),
        Topic(f"dashboard:work:{site}", partial(read_work, addresses)),
        Topic(f"dashboard:timing:{site}", partial(read_timing, addresses), every=CHARTS_EVERY),
    ]
    if workers:
        topics.append(Topic(f"dashboard:workers:{site}", partial(read_workers, addresses)))
    if types:
        topics.append(Topic(f"dashboard:types:{site}", partial(read_types, addresses)))
    if breakers:
        topics.append(Topic(f"dashboard:breakers:{site}", partial(read_breakers, addresses)))
    return topics


def summary_topics(site: str) -> list[Topic]:
    """What the first page of the admin shows."""
    addresses = Addresses(site)
    return [
        Topic(f"dashboard:counts:{site}", partial(read_counts, addresses)),
        Topic(f"dashboard:charts:{site}", partial(read_charts, addresses), every=CHARTS_EVERY),
    ]


def read_counts(addresses: Addresses) -> State:
    return counts_of(Reading(addresses))


def counts_of(reading: Reading) -> dict[str, object]:
    depth = reading.depth
    return {
        "count.running": str(depth.running),
        "count.pending": str(depth.pending),
        "count.scheduled": str(depth.scheduled),
        "count.blocked": str(depth.blocked),
        "count.failed": str(depth.failed),
        "count.workers": str(reading.alive),
        "count.ever": depth.any_job,
        "alert.failed": bool(depth.failed),
        "alert.no_workers": reading.alive == 0 and depth.any_job,
    }


def read_charts(addresses: Addresses) -> State:
    return {f"chart.{chart.name}": _render("chart", chart=chart) for chart in Reading(addresses).charts}


def read_timing(addresses: Addresses) -> State:
    return {"timing": _render("timing", reading=Reading(addresses))}


def read_work(addresses: Addresses) -> State:
    reading = Reading(addresses)
    return {name: _render(name, reading=reading) for name in ("running", "coming", "failures")}


def read_workers(addresses: Addresses) -> State:
    return {"workers": _render("workers", reading=Reading(addresses))}


def read_breakers(addresses: Addresses) -> State:
    return {"breakers": _render("breakers", reading=Reading(addresses))}


def read_types(addresses: Addresses) -> State:
    return {
        f"type.{kind.name}.{key}": value
        for kind in Reading(addresses).kinds
        for key, value in {
            "state": kind.state,
            "paused": kind.is_paused,
            "pending": str(kind.pending),
            "oldest": kind.oldest,
            "load": kind.load,
        }.items()
    }


def _render(part: str, **context: object) -> SafeString:
    return render_to_string(f"admin/jobs/dashboard/{part}.html", context)
