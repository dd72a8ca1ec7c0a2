"""H.264 levels: what a decoder must be able to do."""

from fractions import Fraction

# Table A-1: level, macroblocks per second, macroblocks per frame, kbit/s (High profile: × 1.25).
_LEVELS = (
    ("1.2", 6_000, 396, 384),
    ("1.3", 11_880, 396, 768),
    ("2.0", 11_880, 396, 2_000),
    ("2.1", 19_800, 792, 4_000),
    ("2.2", 20_250, 1_620, 4_000),
    ("3.0", 40_500, 1_620, 10_000),
    ("3.1", 108_000, 3_600, 14_000),
    ("3.2", 216_000, 5_120, 20_000),
    ("4.0", 245_760, 8_192, 20_000),
    ("4.2", 522_240, 8_704, 50_000),
    ("5.0", 589_824, 22_080, 135_000),
    ("5.1", 983_040, 36_864, 240_000),
    ("5.2", 2_073_600, 36_864, 240_000),
    ("6.0", 4_177_920, 139_264, 240_000),
    ("6.2", 16_711_680, 139_264, 800_000),
)


def level_for(width: int, height: int, rate: Fraction, maxrate: int) -> str:
    """The lowest H.264 level that a decoder needs for this picture."""
    across, down = -(-width // 16), -(-height // 16)
    blocks = across * down
    for level, per_second, per_frame, kilobits in _LEVELS:
        fits = blocks <= per_frame and max(across, down) ** 2 <= 8 * per_frame
        if fits and blocks * rate <= per_second and maxrate <= kilobits * 1250:
            return level
    return _LEVELS[-1][0]
