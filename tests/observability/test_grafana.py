"""The Grafana dashboard and the autoscaler ask for metrics and labels that exist."""

from __future__ import annotations

import re

import pytest
import yaml

from jobs.metrics import catalogue
from jobs.metrics.depth import STATUSES
from jobs.metrics.exposition import Metric, render
from jobs.metrics.readings import read
from jobs.models import WorkerStatus
from tests.support import ROOT
from tests.support.queue.scraping import named, parse, queries

BY_SERIES: dict[str, Metric] = {name: metric for metric in catalogue.ALL for name in metric.series}


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


@pytest.mark.django_db
def test_workers_scale_by_a_metric_that_is_there_even_when_the_queue_is_empty() -> None:
    (scaler,) = yaml.safe_load_all((ROOT / "deploy/kubernetes/autoscaling.yaml").read_text())
    (by,) = scaler["spec"]["metrics"]
    wanted = by["external"]["metric"]
    (chosen,) = wanted["selector"]["matchExpressions"]
    metric = BY_SERIES[wanted["name"]]
    assert chosen["key"] in metric.labels
    assert set(chosen["values"]) <= set(STATUSES)
    said = parse(render(read()))
    counted = [
        value for name, value in said.items() if name[0] == metric.name and name[2] in chosen["values"]
    ]
    assert counted
    assert sum(counted) == 0


def test_the_rule_of_the_adapter_names_the_same_metric_and_its_labels() -> None:
    text = (ROOT / "docs/deploy.md").read_text()
    (rules,) = (
        block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "externalRules" in block
    )
    (rule,) = yaml.safe_load(rules)["externalRules"]
    metric = BY_SERIES[rule["seriesQuery"]]
    (labels,) = re.findall(r"max by \(([^)]*)\)", rule["metricsQuery"])
    assert tuple(labels.split(", ")) == metric.labels
    assert named(rule["metricsQuery"]) == [metric.name]
