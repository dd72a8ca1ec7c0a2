"""VMAF: how much a rendition looks like its source, 0 to 100, with the model that libvmaf has built in."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from videos.media import ffmpeg
from videos.media.plan import EncodePlan


def score(playlist: Path, source: Path, plan: EncodePlan, *, every: int, log: Path) -> float:
    """The mean over every n-th picture. Both are shown at the size of the largest rendition, which is the source's.

    Pictures are paired by their number, not by their time, so that neither side profits from a shifted clock.
    """
    size = f"{plan.renditions[0].width}:{plan.renditions[0].height}"
    rate = f"{plan.frame_rate.numerator}/{plan.frame_rate.denominator}"
    same = f"scale={size}:flags=bicubic,format=yuv420p,settb={1 / plan.frame_rate},setpts=N"
    graph = (
        f"[0:v]{same}[shown];[1:v]fps={rate},{same}[meant];"
        f"[shown][meant]libvmaf=log_fmt=json:log_path={log}:n_subsample={every}:n_threads={os.cpu_count()}"
    )
    command = [str(ffmpeg.binary()), "-nostdin", "-v", "error", "-i", str(playlist), "-i", str(source)]
    subprocess.run([*command, "-filter_complex", graph, "-f", "null", "-"], check=True)
    return float(json.loads(log.read_text())["pooled_metrics"]["vmaf"]["mean"])
