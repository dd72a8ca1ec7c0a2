"""What stands in deploy/, read: manifests as data, and the environment that each of them gives the site."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from jobs.conf import JobsSettings
from tests.support import ROOT
from videos.conf import VideosSettings

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))

Environment = dict[str, str]


def manifests() -> list[Any]:
    return [
        document
        for path in sorted(KUBERNETES.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]


def manifest(kind: str, name: str) -> Any:
    (found,) = [one for one in manifests() if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def pod_of(workload: Any) -> Any:
    return workload["spec"]["template"]["spec"]


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def instructions(path: Path = DEPLOY / "Dockerfile") -> list[tuple[str, str]]:
    """("COPY", "a b"), … of the container file."""
    text = re.sub(r"\\\n", " ", path.read_text())
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def options(unit: Path) -> dict[str, str]:
    """Every line of a unit; of those that stand there twice, the last."""
    return dict(re.findall(r"^([A-Z]\w+)=(.*)$", unit.read_text(), re.MULTILINE))


def assignments(text: str) -> Environment:
    return dict(re.findall(r"^([A-Z][A-Z_0-9]*)=(.*)$", text, re.MULTILINE))


EXAMPLE = assignments((DEPLOY / "production.env.example").read_text())


def environments() -> Iterator[tuple[str, Environment]]:
    """Each place that sets variables for the site, with what it sets."""
    yield "production.env.example", EXAMPLE
    for name, service in compose()["services"].items():
        if service["image"] == "sprocket":
            yield f"compose.yaml: {name}", service["environment"]
    for unit in UNITS:
        words = options(unit)["Environment"].split()
        yield unit.name, dict(word.split("=", 1) for word in words)
    yield "ConfigMap", manifest("ConfigMap", "sprocket")["data"]
    given = [text for name, text in instructions() if name == "ENV"]
    yield "Dockerfile", dict(word.split("=", 1) for text in given for word in text.split())


def read_by_the_settings() -> set[str]:
    """The variables that project/settings.py asks for by name."""
    tree = ast.parse((ROOT / "project" / "settings.py").read_text())
    return {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
        and re.match(r"env\.|os\.environ\.get$", ast.unparse(node.func))
    }


def known_variables() -> set[str]:
    keys = {f"JOBS_{name}".upper() for name in JobsSettings.__dataclass_fields__}
    keys |= {f"VIDEOS_{name}".upper() for name in VideosSettings.__dataclass_fields__}
    return read_by_the_settings() | keys
