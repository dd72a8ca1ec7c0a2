"""The pages of jobs and videos with a long past against the same pages with a short one, turn by turn."""

from __future__ import annotations

from statistics import median

from benchmarks.bench import Bench
from benchmarks.contender import SPROCKET_ADMIN
from benchmarks.findings import Finding, judged

_SMALL = 1_000
_VIDEOS, _FEW_VIDEOS = 10_000, 100
_VIEWS = 10  # of each page and turn
_MOST_QUERIES = 15
_DASHBOARD = "dashboard"


def admin_pages(bench: Bench) -> list[Finding]:
    rows = bench.effort.table_rows
    small, large = SPROCKET_ADMIN.at("short_past"), SPROCKET_ADMIN.at("long_past")
    times: dict[str, tuple[list[float], list[float]]] = {}
    queries: dict[str, int] = {}
    with bench.driver(small) as few, bench.driver(large) as many:
        bench.say(f"writing the past of {rows:,} jobs and {_VIDEOS:,} videos …")
        for driver, contender, *past in ((few, small, _SMALL, _FEW_VIDEOS), (many, large, rows, _VIDEOS)):
            driver.prepare()
            driver.extra("fill_past", *past)
            bench.settle(contender)
            driver.extra("count_past")
        pages = many.extra("pages")
        for page in pages:
            queries[page] = int(many.extra("count_queries", page))
            few.extra("time_page", page, _VIEWS)  # plans, templates and caches are warm
            times[page] = ([], [])
        for _ in range(bench.effort.rounds * 2):
            for page, (short, long) in times.items():
                short += few.extra("time_page", page, _VIEWS)
                long += many.extra("time_page", page, _VIEWS)
    return [_finding(page, rows, *times[page], queries[page]) for page in pages]


def _finding(page: str, rows: int, short: list[float], long: list[float], queries: int) -> Finding:
    ratio = median(long) / median(short)
    is_timed = page == _DASHBOARD
    target = f"≤ {_MOST_QUERIES} queries" + (f", ≤ 2 × the time with {_SMALL:,}" if is_timed else "")
    times = f"{median(long) * 1000:.1f} ms : {median(short) * 1000:.1f} ms = {ratio:.2f} ×"
    return judged(
        f"admin, {page} with {rows:,} jobs, {_VIDEOS:,} videos",
        target,
        f"{queries} queries, {times}",
        queries <= _MOST_QUERIES and (ratio <= 2 or not is_timed),
        ratio=ratio,
        queries=queries,
        short=short,
        long=long,
    )
