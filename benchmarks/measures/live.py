"""Live pages: what two hundred of them cost the database, and how soon they show what a handler said."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

from benchmarks.bench import Bench
from benchmarks.contender import SPROCKET_ADMIN
from benchmarks.driver import Driver
from benchmarks.findings import Finding, judged, percentile
from tests.support.servers.sse import EventStream

_PAGES = 200
_SITE = SPROCKET_ADMIN.at("live")
_SERVER = _SITE.given(server=1)
_MOST_MORE = 1.5
_WITHIN = 1.0
_PATIENCE = 60
_NOTED = {"PGAPPNAME": "live-server", "PGOPTIONS": "-c log_statement=all"}
"""The web server's sessions can be told from all others, and theirs alone are the statements in PostgreSQL's log."""
_LOGGED = re.compile(rb"LOG:  (?:statement|execute [^:]+):")


@dataclass(frozen=True)
class _Watched:
    """One job that was looked at by so many pages while it ran."""

    delays: list[float]  # from the handler's call to the last page, for each step
    statements: float  # of the web server, per second
    sessions: int  # of the web server, while all pages were open


def live_pages(bench: Bench) -> list[Finding]:
    one: list[_Watched] = []
    many: list[_Watched] = []
    with bench.driver(_SITE) as driver:
        driver.prepare()
        for _ in range(bench.effort.rounds):
            for pages, watched in ((1, one), (_PAGES, many)):
                watched.append(_watch(bench, driver, pages))
                seen = watched[-1]
                bench.say(
                    f"{pages} pages: {seen.sessions} sessions, {seen.statements:.1f} statements/s,"
                    f" {median(seen.delays) * 1000:.0f} ms, at worst {max(seen.delays) * 1000:.0f} ms"
                )
    return [_cost(one, many), _delay(1, one), _delay(_PAGES, many)]


def _cost(one: list[_Watched], many: list[_Watched]) -> Finding:
    few, rate = median(w.statements for w in one), median(w.statements for w in many)
    sessions = max(w.sessions for w in many)
    return judged(
        f"live, {_PAGES} open pages of a running job",
        f"1 session, ≤ {_MOST_MORE:g} × the statements of 1 page",
        f"{sessions} session{'s' * (sessions > 1)}, {rate:.1f}/s : {few:.1f}/s = {rate / few:.2f} ×",
        sessions == 1 and rate <= _MOST_MORE * few,
        sessions=[w.sessions for w in many],
        one=[w.statements for w in one],
        many=[w.statements for w in many],
    )


def _delay(pages: int, watched: list[_Watched]) -> Finding:
    delays = [delay for w in watched for delay in w.delays]
    return judged(
        f"live, progress in a handler → {'the page' if pages == 1 else f'the last of {pages} pages'}",
        f"≤ {_WITHIN:g} s",
        f"p50 {percentile(delays, 0.5) * 1000:.0f} ms, p99 {percentile(delays, 0.99) * 1000:.0f} ms,"
        f" at worst {max(delays) * 1000:.0f} ms ({len(delays)} steps)",
        max(delays) <= _WITHIN,
        delays=delays,
    )


def _watch(bench: Bench, driver: Driver, pages: int) -> _Watched:
    """A worker and a web server of their own; `pages` browsers look at the job while its handler goes on."""
    steps = bench.effort.live_steps
    bench.settle(_SITE)
    bench.ledger.clear()
    with ExitStack() as stack:
        server = stack.enter_context(bench.workers(_SERVER, driver, environment=_NOTED))
        _wait_until(lambda: bool(driver.extra("server_answers")), server.check_alive)
        job, address, cookie = driver.extra("enqueue_steps", steps)
        shown = f"job.{job}.percent"
        streams = []
        for _ in range(pages):
            streams.append(EventStream(address, cookie=cookie))
            stack.callback(streams[-1].close)
        _wait_until(lambda: all(shown in stream.state for stream in streams), server.check_alive)
        workers = stack.enter_context(bench.workers(_SITE, driver))
        bench.ledger.wait_for(0, timeout=_PATIENCE)
        began, log_begins = time.monotonic(), bench.postgres.log.stat().st_size
        bench.ledger.wait_for(steps, timeout=_PATIENCE + 3 * steps)
        _wait_until(lambda: all(_shown_at(s, shown, steps) for s in streams), workers.check_alive)
        seconds = time.monotonic() - began
        with bench.postgres.log.open("rb") as log:
            log.seek(log_begins)
            rate = len(_LOGGED.findall(log.read())) / seconds
        sessions = int(
            bench.postgres.value(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'live-server'"
            )
        )
        called = {run.index: run.at for run in bench.ledger.runs()}
        delays = [
            max(_shown_at(stream, shown, step) or float("inf") for stream in streams) - called[step]
            for step in range(1, steps + 1)
        ]
    return _Watched(delays, rate, sessions)


def _shown_at(stream: EventStream, name: str, step: int) -> float | None:
    """When the page had this step or a later one: of two in quick succession the first may never be shown."""
    return next((at for at, values in list(stream.events) if values.get(name, 0) >= step), None)


def _wait_until(holds: Callable[[], bool], check_alive: Callable[[], None]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not holds():
        check_alive()
        if time.monotonic() > deadline:
            raise RuntimeError(f"a live page did not show what it should within {_PATIENCE} s")
        time.sleep(0.02)
