"""Frame rates: what a source's timestamps say, and the one constant rate it is published at."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

STANDARD = tuple(
    Fraction(n, d)
    for n, d in (
        *((24000, 1001), (24, 1), (25, 1), (30000, 1001), (30, 1), (48, 1)),
        *((50, 1), (60000, 1001), (60, 1), (100, 1), (120000, 1001), (120, 1), (240, 1)),
    )
)
FASTEST = 60
SLOWEST = 10


@dataclass(frozen=True)
class MeasuredRate:
    usual: Fraction
    """How often pictures come when they come regularly."""
    average: Fraction
    variable: bool


def measure(times: Sequence[int], time_base: Fraction, declared: Sequence[Fraction]) -> MeasuredRate:
    """The rate of pictures shown at these times (sorted, in ticks).

    The container's word counts where the times agree with it to half a percent: it is exact, while times may be
    rounded (Matroska counts milliseconds, so the gaps of 30 pictures a second are 33, 33 and 34).
    """
    if len(times) < 3:
        rate = snap(declared[0]) if declared else Fraction(25)
        return MeasuredRate(rate, rate, variable=False)
    gaps = Counter(later - earlier for earlier, later in pairwise(times))
    count = len(times) - 1
    average = count / ((times[-1] - times[0]) * time_base)
    gap, _ = gaps.most_common(1)[0]
    tolerance = max(1, gap // 10)
    near = {g: n for g, n in gaps.items() if abs(g - gap) <= tolerance}
    regular = sum(near.values())
    variable = regular < count * 0.98
    usual = regular / (sum(g * n for g, n in near.items()) * time_base) if variable else average
    agreeing = [rate for rate in declared if abs(rate - usual) <= usual / 200]
    return MeasuredRate(snap(min(agreeing, key=lambda r: abs(r - usual), default=usual)), average, variable)


def snap(rate: Fraction) -> Fraction:
    """The standard rate it stands for, if it is within 0.04 % of one, else a small fraction near it.

    24 and 24000/1001 are 0.1 % apart, so nothing is mistaken for its neighbour.
    """
    nearest = min(STANDARD, key=lambda s: abs(s - rate))
    if abs(nearest - rate) <= nearest / 2500:
        return nearest
    rounded = Fraction(round(rate * 2), 2)
    if rounded and abs(rounded - rate) <= rate / 2500:
        return rounded
    return rate.limit_denominator(1001)


def publish_at(rate: Fraction, *, variable: bool = False) -> Fraction:
    """The constant rate to publish at: every picture of the source up to 60 a second, else every second,
    third … one; and slow sources repeat pictures, so that segments have whole numbers of them.

    A source of no constant rate gets the nearest standard one: 29.4 measured on a phone means 30.
    """
    if variable:
        nearest = min(STANDARD, key=lambda s: abs(s - rate))
        if abs(nearest - rate) <= nearest / 10:
            rate = nearest
    if rate > FASTEST:
        rate /= -(-rate // FASTEST)
    elif rate < SLOWEST:
        rate *= -(-SLOWEST // rate)
    return rate.limit_denominator(1001)
