"""The report: a table with each target beside the measured value, and the same as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import environment
from benchmarks.findings import Finding

RESULTS = Path(__file__).resolve().parent / "results"
_HEADINGS = ("measure", "target", "measured", "verdict")


def table(findings: Sequence[Finding]) -> str:
    """As text, in columns; a measure is named on its first line only."""
    rows = [(f.measure, f.target, f.measured, f.verdict) for f in findings]
    shown = [
        ("" if number and rows[number - 1][0] == row[0] else row[0], *row[1:])
        for number, row in enumerate(rows)
    ]
    lines = [_HEADINGS, *shown]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    texts.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(text.rstrip() for text in texts)


def summary(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in findings)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "load_before": os.getloadavg(),
    }


def write(findings: Sequence[Finding], circumstances: dict[str, Any]) -> Path:
    """Everything, every single sample included."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "latest.json"
    content = {
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        **circumstances,
        "peers": environment.versions(),
        "findings": [asdict(finding) for finding in findings],
    }
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return path


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
