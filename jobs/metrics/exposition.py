"""Prometheus' text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: str
    """counter, gauge or histogram"""
    help: str
    labels: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """The names that a query may use."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        return (self.name,)


@dataclass(frozen=True, slots=True)
class Sample:
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    part: str = ""
    """Of a histogram: bucket, sum or count."""


def render(readings: Iterable[tuple[Metric, Iterable[Sample]]]) -> str:
    return "".join(f"{line}\n" for metric, samples in readings for line in _lines(metric, samples))


def _lines(metric: Metric, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {metric.name} {_escape(metric.help)}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for sample in samples:
        name = f"{metric.name}_{sample.part}" if sample.part else metric.name
        labels = ",".join(f'{key}="{_quote(text)}"' for key, text in sample.labels.items())
        yield f"{name}{{{labels}}} {_number(sample.value)}" if labels else f"{name} {_number(sample.value)}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quote(text: str) -> str:
    return _escape(text).replace('"', '\\"')


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g}"
