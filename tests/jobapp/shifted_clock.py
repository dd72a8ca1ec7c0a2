"""Settings for a worker whose host's clock is wrong by SHIFT_SECONDS."""

import os
import time
from datetime import timedelta

from django.utils import timezone

SHIFT = float(os.environ["SHIFT_SECONDS"])

_time, _time_ns, _now = time.time, time.time_ns, timezone.now
time.time = lambda: _time() + SHIFT
time.time_ns = lambda: _time_ns() + int(SHIFT * 1_000_000_000)
timezone.now = lambda: _now() + timedelta(seconds=SHIFT)

from tests.settings import *  # noqa: E402, F403
