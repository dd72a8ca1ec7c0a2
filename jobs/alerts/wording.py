"""The kinds of alerts, and what each says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

LONGEST_FACT = 500
UNKNOWN = "unknown"
"""Stands for a fact that a sentence names and nobody gave."""
ABOUT_ALERTS = "jobs.alert"
"""The job type that delivers alerts; nothing that happens to such a job is worth another."""


class Kind(StrEnum):
    STALE_JOB_RECOVERED = "stale_job_recovered"
    JOB_MAX_RETRIES_EXCEEDED = "job_max_retries_exceeded"
    JOB_FAILED_PATTERN = "job_failed_pattern"
    WORKER_STARTUP = "worker_startup"
    WORKER_SHUTDOWN = "worker_shutdown"
    WORKER_OFFLINE = "worker_offline"
    QUEUE_DEPTH_HIGH = "queue_depth_high"
    BREAKER_OPENED = "breaker_opened"


_SENTENCES = {
    Kind.STALE_JOB_RECOVERED: "{count} job(s) were taken back: {reason}. The first is {job} ({type}{about}).",
    Kind.JOB_MAX_RETRIES_EXCEEDED: "Job {job} ({type}{about}) has failed for good: {error}",
    Kind.JOB_FAILED_PATTERN: "{count} jobs failed alike ({subject}): {error}",
    Kind.WORKER_STARTUP: "Worker {worker} has started.",
    Kind.WORKER_SHUTDOWN: "Worker {worker} has stopped.",
    Kind.WORKER_OFFLINE: "Worker {worker} counts as offline: {reason}.{last}",
    Kind.QUEUE_DEPTH_HIGH: "{depth} jobs are in the queue, more than {limit}.",
    Kind.BREAKER_OPENED: "Breaker {breaker} has opened: {reason}",
}


@dataclass(frozen=True)
class Alert:
    kind: Kind
    facts: Mapping[str, Any]
    at: str
    """The moment, as in ISO 8601."""
    id: str = ""
    """That of the job that delivers it: the same at every attempt."""
    held_back: int = 0
    """So many of its kind came since the last one, and were not sent."""
    text: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self._sentence())

    def _sentence(self) -> str:
        known = {name: str(value) for name, value in self.facts.items()}
        known["about"] = f", {known['subject']}" if known.get("subject") else ""
        known["last"] = " No worker is running any more." if known.get("left") == "0" else ""
        sentence = _SENTENCES[self.kind].format_map(_Known(known))
        more = f" ({self.held_back} more of this kind since the last alert)" if self.held_back else ""
        return sentence + more


class _Known(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return UNKNOWN


def shorten_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers as they are, everything else as text that is not too long for a chat."""
    return {
        name: value if isinstance(value, int) else _shortened(str(value)) for name, value in facts.items()
    }


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_FACT else text[: LONGEST_FACT - 1] + "…"
