"""What ffmpeg is told: the command lines for a chunk and for a sound track."""

from pathlib import Path

from videos.media import ffmpeg
from videos.media.encoders import ENCODERS
from videos.media.plan import AAC_FRAME, SAMPLE_RATE, AudioPlan, Chunk, EncodePlan, RenditionPlan

FRAMES = "frames.txt"
"""Where ffmpeg writes down each frame that reaches the first encoder."""
ROUNDING = 2
"""Frames by which a source may end before its plan through rounding alone: its last picture is held."""


def chunk_arguments(
    plan: EncodePlan,
    chunk: Chunk,
    *,
    source: Path,
    seek: float | None,
    from_zero: bool = False,
    hold: bool = False,
    device: str = "",
) -> list[str]:
    """`from_zero` repeats the first picture back to the programme's start, `hold` the last one to the chunk's end.

    `device` is the one that trial.py has found for the plan's encoder.
    """
    before = ["-copyts"]
    if not plan.rotation and not plan.deinterlace:
        # A picture that changes its size midway: `scale` copes, while building the graph anew loses a frame. Filters
        # that turn or compare whole pictures do not cope, and get a new graph.
        before += ["-reinit_filter", "0"]
    if seek is not None:
        before += ["-noaccurate_seek", "-seek_timestamp", "1", "-ss", f"{seek:.6f}"]
    arguments = ENCODERS[plan.encoder].opening(device)
    arguments += ffmpeg.source_input(source, plan.container, *before)
    arguments += ["-filter_complex", _picture_graph(plan, chunk, from_zero=from_zero, hold=hold)]
    for number, rendition in enumerate(plan.renditions):
        arguments += ["-map", f"[out{number}]", *output_arguments(plan, rendition)]
        if number == 0:
            arguments += ["-stats_enc_pre", FRAMES, "-stats_enc_pre_fmt", "{n} {pts}"]
        arguments += [f"{rendition.name}.mp4"]
    return arguments


def _picture_graph(plan: EncodePlan, chunk: Chunk, *, from_zero: bool, hold: bool) -> str:
    rate = f"{plan.frame_rate.numerator}/{plan.frame_rate.denominator}"
    steps = [f"[0:{plan.video_index}]setpts=PTS-({plan.origin_ticks})"]
    if plan.deinterlace:
        steps.append("bwdif=mode=send_frame:deint=interlaced")
    steps.append(f"fps=fps={rate}:round=near" + (":start_time=0" if from_zero else ""))
    if hold:
        steps.append("tpad=stop=-1:stop_mode=clone")
    elif chunk.number == plan.total_chunks:
        steps.append(f"tpad=stop={ROUNDING}:stop_mode=clone")
    steps.append(f"trim=start_pts={chunk.first_frame}:end_pts={chunk.end_frame}")
    steps.append(f"setpts=PTS-{chunk.first_frame}")
    if plan.hdr_transfer:
        steps += _tone_map(plan)
    count = len(plan.renditions)
    graph = ",".join(steps) + f",split={count}" + "".join(f"[in{n}]" for n in range(count))
    for number, rendition in enumerate(plan.renditions):
        graph += f";[in{number}]{_scale(plan, rendition)},{finishing_filters(plan, rendition)}[out{number}]"
    return graph


def _scale(plan: EncodePlan, rendition: RenditionPlan) -> str:
    matrix = ":out_color_matrix=bt709" if plan.to_bt709 else ""
    return (
        f"scale={rendition.width}:{rendition.height}:flags=bicubic+accurate_rnd+bitexact:out_range=tv{matrix}"
    )


def finishing_filters(plan: EncodePlan, rendition: RenditionPlan) -> str:
    """What every encoder gets, brought to where it takes it."""
    upload = ENCODERS[plan.encoder].upload
    return "format=yuv420p,setsar=1" + (f",{upload}" if upload else "")


def _tone_map(plan: EncodePlan) -> list[str]:
    """From HDR to what every screen shows. Scaled first: the light is computed in floating point."""
    largest = plan.renditions[0]
    return [
        f"scale={largest.width}:{largest.height}:flags=bicubic+accurate_rnd+bitexact",
        f"zscale=tin={plan.hdr_transfer}:pin=bt2020:min=bt2020nc:t=linear:npl=100",
        "format=gbrpf32le",
        "zscale=p=bt709",
        "tonemap=tonemap=hable:desat=0",
        "zscale=t=bt709:m=bt709:r=tv",
        "format=yuv420p",
    ]


def output_arguments(plan: EncodePlan, rendition: RenditionPlan) -> list[str]:
    rate = f"{plan.frame_rate.numerator}/{plan.frame_rate.denominator}"
    return [
        *("-r", rate, "-fps_mode", "cfr", *ENCODERS[plan.encoder].arguments(plan, rendition)),
        *("-fflags", "+bitexact", "-map_metadata", "-1", "-map_chapters", "-1"),
        *("-video_track_timescale", str(plan.timescale), "-f", "mp4"),
        *("-movflags", "+empty_moov+frag_keyframe+default_base_moof+skip_trailer"),
    ]


def audio_arguments(plan: EncodePlan, track: AudioPlan, *, source: Path) -> list[str]:
    samples = plan.audio_frames * AAC_FRAME
    layout = "mono" if track.channels == 1 else "stereo"
    count = len(track.bitrates)
    outputs = "".join(f"[out{n}]" for n in range(count))
    graph = (
        # Seconds on the source's clock become seconds after the plan's zero; gaps are filled with silence.
        f"[0:{track.index}]asetpts=PTS-({_exact(plan)})/TB,"
        f"aresample={SAMPLE_RATE}:async=1:first_pts=0,"
        f"aformat=sample_fmts=fltp:channel_layouts={layout},"
        f"apad,atrim=end_sample={samples},asetnsamples=n={AAC_FRAME}:p=1,asplit={count}{outputs}"
    )
    arguments = ffmpeg.source_input(source, plan.container, "-copyts")
    arguments += ["-filter_complex", graph]
    for number, bitrate in enumerate(track.bitrates):
        arguments += [
            *("-map", f"[out{number}]", "-c:a", "aac", "-b:a", str(bitrate), "-ar", str(SAMPLE_RATE)),
            *("-flags:a", "+bitexact", "-fflags", "+bitexact", "-map_metadata", "-1", "-map_chapters", "-1"),
            *("-f", "mp4", "-movflags", "+empty_moov+default_base_moof+skip_trailer"),
            *("-frag_duration", "6000000", f"{track.folder(bitrate)}.mp4"),
        ]
    return arguments


def _exact(plan: EncodePlan) -> str:
    return f"{plan.origin.numerator}/{plan.origin.denominator}"
