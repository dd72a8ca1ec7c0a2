"""A finding: one target, what was measured, and whether it holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

Verdict = Literal["pass", "MISS", "no target", "not measured"]


@dataclass(frozen=True)
class Finding:
    measure: str
    target: str
    measured: str
    verdict: Verdict
    numbers: dict[str, Any] = field(default_factory=dict)


def judged(measure: str, target: str, measured: str, holds: bool, **numbers: Any) -> Finding:
    return Finding(measure, target, measured, "pass" if holds else "MISS", numbers)


def not_measured(measure: str, target: str, reason: object) -> Finding:
    first_line = str(reason).splitlines()[0] if str(reason) else type(reason).__name__
    return Finding(measure, target, first_line, "not measured", {"reason": str(reason)})


def compare_rates(
    measure: str, ours: list[float], rival: str, theirs: list[float], *, factor: float | None
) -> Finding:
    """Our median rate against a rival's; the target is `factor` times theirs, or there is none."""
    our_rate, their_rate = median(ours), median(theirs)
    ratio = our_rate / their_rate
    reached = f"{ratio:.0%}" if factor and factor < 1 else f"{ratio:.2f} ×"
    return Finding(
        measure,
        wanted(rival, factor),
        f"{our_rate:,.0f}/s : {their_rate:,.0f}/s = {reached}",
        "no target" if factor is None else "pass" if ratio >= factor else "MISS",
        {"ratio": ratio, "factor": factor, "ours": ours, "theirs": theirs},
    )


def wanted(rival: str, factor: float | None) -> str:
    """A target in words, such as "≥ 1.5 × PgQueuer"."""
    if factor is None:
        return f"beside {rival}"
    if factor < 1:
        return f"≥ {factor:.0%} of {rival}"
    return f"≥ {rival}" if factor == 1 else f"≥ {factor:g} × {rival}"


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]
