"""After the look at a source: pin the plan of its transcode, and add every job that it asks for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from jobs import JobContext, database
from jobs.lifecycle.leases import lock_leased
from videos import conf, following, pipeline, reusing, subtitling, toolchains
from videos.media import ladder
from videos.media.plan import EncodePlan, make_plan, plan_beside
from videos.media.source import SourceInfo
from videos.models import Transcode
from videos.workbench import Workbench


def plan_for(bench: Workbench, info: SourceInfo, *, has: Collection[str]) -> EncodePlan:
    """`has`: the capabilities of the worker that has looked at the source."""
    if bench.transcode.plan:
        return bench.plan
    choice = ladder.rungs_for(info.video.width, info.video.height)
    asked = bench.transcode.requested_qualities
    chosen = tuple(size for size in choice.sizes if size.rung.name in asked)
    if chosen:
        choice = ladder.Choice(sizes=chosen, skipped=choice.skipped)
    encoder, pin = toolchains.choose(bench.transcode, has)
    settings = replace(conf.current().plan_settings, encoder=encoder)
    if (kept := reusing.kept_plan_of(bench.transcode)) is not None:
        return plan_beside(kept, choice, ffmpeg_build=pin, settings=settings)
    return make_plan(info, choice, ffmpeg_build=pin, settings=settings)


def begin(job: JobContext, transcode_id: int, info: SourceInfo, plan: EncodePlan) -> None:
    """In one transaction, bound to the lease."""
    with database.atomic():
        lock_leased(job.lease)
        transcode = Transcode.objects.select_for_update(no_key=True).get(pk=transcode_id)
        transcode.plan = plan.to_json()
        transcode.encoder = plan.encoder
        transcode.work_total = pipeline.total_work(plan, transcode)
        transcode.text_tracks = subtitling.text_tracks(info)
        transcode.save(update_fields=["plan", "encoder", "work_total", "text_tracks"])
        following.plan_qualities(transcode, plan)
        pipeline.fan_out(job, transcode, plan)
        toolchains.watch(transcode)
