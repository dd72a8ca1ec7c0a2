"""The stages of the pipeline on a worker that has neither the site's database nor its files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jobs import JobContext
from videos import encoding, subtitling
from videos.bench import clear_errors
from videos.far_bench import FarBench
from videos.media import foreign_source, serial, thumbnails, webvtt
from videos.media.examine import examine
from videos.media.exceptions import FfmpegStopped
from videos.media.source import Limits
from videos.remote_stages import FOUND, SPEECH_FILE, captions_file

if TYPE_CHECKING:  # it needs httpx, which only remote workers have
    from jobs.worker.site import Site


def probe(job: JobContext, site: Site) -> None:
    bench = FarBench(job, site)
    with clear_errors(bench):
        info = examine(bench.source, limits=Limits(**site.order["limits"]), stop=lambda: job.must_stop)
    found = site.folder / FOUND
    found.write_text(json.dumps(serial.to_json(foreign_source.thinned(info))))
    site.send(FOUND, found)


def thumbnail(job: JobContext, site: Site) -> None:
    bench = FarBench(job, site)
    watch = bench.watch(total=1, step="thumbnails")
    for name in thumbnails.needed(bench.plan):
        site.fetch(name)
    try:
        made = thumbnails.make(bench.plan, site.folder, stop=watch.stop)
    except FfmpegStopped:
        job.raise_if_stopped()
        raise
    for file in (made.poster, *made.sheets):
        site.send(file.name, site.folder / file.name)


def subtitles(job: JobContext, site: Site) -> dict[str, Any]:
    tracks = site.order["tracks"]
    found = subtitling.read_tracks(FarBench(job, site), tracks, work=site.folder)
    languages = []
    for number, (track, cues) in enumerate(found, start=1):
        if cues:
            _send_captions(site, captions_file(number), cues)
            languages.append(track["language"])
    return {"languages": languages}


def transcribe(job: JobContext, site: Site) -> dict[str, Any]:
    heard = subtitling.listen(FarBench(job, site), work=site.folder)
    if heard.cues:
        _send_captions(site, SPEECH_FILE, heard.cues)
    return heard.result


def _send_captions(site: Site, name: str, cues: list[webvtt.Cue]) -> None:
    path = site.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(webvtt.write_webvtt(cues), encoding="utf-8")
    site.send(name, path)


def master_playlist(job: JobContext, site: Site) -> None:
    """Encode what does not fit together yet; the site does the rest."""
    bench, order = FarBench(job, site), site.order
    for number in order["holes"]:
        encoding.fill_hole(bench, bench.plan, number, list(bench.qualities()))
    for number in order["sounds"]:
        encoding.write_audio(bench, bench.plan.shortened(order["frames"]), number)
    site.wait_for_its_part("putting it together")


def take_over(job: JobContext, site: Site) -> None:
    site.wait_for_its_part("taking over")


def finalize(job: JobContext, site: Site) -> None:
    site.wait_for_its_part("verifying")
