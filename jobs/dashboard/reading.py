"""Everything the dashboard can show, each part read when it is first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property

from jobs import database, statistics
from jobs.breakers.overview import BreakerView, read_breakers
from jobs.dashboard import charts
from jobs.dashboard.addresses import Addresses
from jobs.dashboard.charts import Chart
from jobs.dashboard.crew import Crew, read_crew, read_workers
from jobs.dashboard.depth import Depth, read_depth
from jobs.dashboard.kinds import KindRow, read_kinds
from jobs.dashboard.timing import PERCENTILES, Timing, read_timing
from jobs.dashboard.work import (
    SHOWN_RUNNING,
    ComingJob,
    Failures,
    RunningJob,
    read_coming,
    read_failures,
    read_running,
)
from jobs.models import Worker


class Reading:
    percentiles = PERCENTILES

    def __init__(self, addresses: Addresses) -> None:
        self.addresses = addresses

    @cached_property
    def depth(self) -> Depth:
        return read_depth()

    @cached_property
    def workers(self) -> list[Worker]:
        return read_workers()

    @property
    def alive(self) -> int:
        """How many workers are running."""
        return sum(worker.is_online for worker in self.workers)

    @cached_property
    def now(self) -> datetime:
        return self.depth.now if "depth" in self.__dict__ else database.read_clock()

    @cached_property
    def running(self) -> list[RunningJob]:
        return read_running(self.now, self.addresses)

    @property
    def shown_running(self) -> Sequence[RunningJob]:
        return self.running[:SHOWN_RUNNING]

    @property
    def hidden_running(self) -> int:
        return max(0, len(self.running) - SHOWN_RUNNING)

    @cached_property
    def coming(self) -> list[ComingJob]:
        return read_coming(self.addresses)

    @cached_property
    def failures(self) -> Failures:
        return read_failures(self.addresses)

    @cached_property
    def charts(self) -> Sequence[Chart]:
        history = statistics.read_history(charts.SPAN)
        return charts.hour_chart(history), charts.day_chart(history)

    @cached_property
    def timing(self) -> Timing:
        return read_timing()

    @cached_property
    def crew(self) -> Crew:
        return read_crew(self.workers, self.now, self.running, self.addresses)

    @cached_property
    def kinds(self) -> list[KindRow]:
        return read_kinds(self.running, self.breakers, self.addresses)

    @cached_property
    def breakers(self) -> list[BreakerView]:
        return read_breakers()
