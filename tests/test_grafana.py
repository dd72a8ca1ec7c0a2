"""The Grafana dashboard asks for metrics and labels that exist, and for all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from jobs.metrics import catalogue
from jobs.metrics.exposition import Metric
from jobs.models import WorkerStatus
from tests.support import ROOT

DASHBOARD = json.loads((ROOT / "deploy/grafana/sprocket.json").read_text())
BY_SERIES: dict[str, Metric] = {name: metric for metric in catalogue.ALL for name in metric.series}


def queries() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (item["query"]["query"] for item in DASHBOARD["templating"]["list"] if item["type"] == "query")


def named(query: str) -> list[str]:
    return re.findall(r"\bsprocket_[a-z_]+", query)


def test_every_query_names_metrics_that_exist() -> None:
    for query in queries():
        assert named(query), query
        assert set(named(query)) <= set(BY_SERIES), query


def test_every_metric_is_on_it() -> None:
    shown = {BY_SERIES[name].name for query in queries() for name in named(query)}
    assert shown == {metric.name for metric in catalogue.ALL}


def test_every_label_in_a_query_is_one_of_the_metric() -> None:
    for query in queries():
        for name, selector in re.findall(r"(sprocket_[a-z_]+)\{([^}]*)\}", query):
            labels = set(re.findall(r"([a-z_]+)(?:=~|!=|=)", selector))
            assert labels <= {*BY_SERIES[name].labels, "le"}, query
        known = {label for name in named(query) for label in BY_SERIES[name].labels} | {"le"}
        for listed in re.findall(r"by \(([^)]*)\)", query):
            assert set(re.split(r",\s*", listed)) <= known, query


def test_the_online_workers_are_all_but_the_offline_ones() -> None:
    (query,) = [query for query in queries() if "sprocket_workers{" in query]
    (statuses,) = re.findall(r'status=~"([^"]*)"', query)
    assert set(statuses.split("|")) == set(WorkerStatus.values) - {"offline"}


def test_counters_are_only_used_as_rates() -> None:
    for query in queries():
        for name in named(query):
            if BY_SERIES[name].kind == "counter" and "label_values" not in query:
                assert re.search(rf"rate\({name}\b", query), query
