"""Scrapes of /metrics, read by Prometheus' own library, and what the Grafana dashboard asks of them."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.support import ROOT

TOKEN = "a-token-for-prometheus"

Samples = dict[tuple[Any, ...], float]
"""(name, label, …) → value"""


def parse(text: str, *, kind: str = "") -> Samples:
    """Every sample, or those of one kind of metric."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if kind in ("", family.type)
    }


def fetch(address: str) -> str:
    asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return str(answer.read().decode())


def queries() -> Iterator[str]:
    """All of the Grafana dashboard."""
    dashboard = json.loads((ROOT / "deploy/grafana/sprocket.json").read_text())
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (item["query"]["query"] for item in dashboard["templating"]["list"] if item["type"] == "query")


def named(query: str) -> list[str]:
    """The metrics in a query."""
    return re.findall(r"\bsprocket_[a-z_]+", query)
