"""Encoders: on a GPU only after a real test encode; all told everything that the joins depend on; any codec."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.jobapp import fake_gpu, hevc
from tests.support.videos import conformance
from tests.support.videos.media_clips import binary, encode_all, make_clip, plan_for
from videos.media import finish, verify
from videos.media.boxes import BadBoxes
from videos.media.commands import chunk_arguments
from videos.media.encoders import ENCODERS, Encoder, hardware_names, libx264, on_the_grid
from videos.media.ffmpeg import RunLimits
from videos.media.headers import track_header
from videos.media.plan import EncodePlan
from videos.media.trial import try_out


@pytest.fixture(autouse=True)
def _encoders_as_they_were() -> Iterator[None]:
    before = dict(ENCODERS)
    yield
    ENCODERS.clear()
    ENCODERS.update(before)


@pytest.mark.parametrize("name", ["h264_nvenc", "h264_qsv", "h264_vaapi"])
def test_without_the_hardware_a_test_encode_says_why_not(name: str) -> None:
    trial = try_out(name, ffmpeg_binary=binary())
    if trial.works:
        pytest.skip("this machine has it")
    assert any(word and word in trial.reason for word in (name, ENCODERS[name].devices))
    assert len(trial.reason) <= 300
    assert not trial.mark


def test_an_encoder_works_when_it_has_encoded_what_a_chunk_must_be() -> None:
    trial = try_out("libx264", ffmpeg_binary=binary())
    assert (trial.works, trial.reason) == (True, "")
    assert trial == try_out("libx264", ffmpeg_binary=binary()), "the header is the same every time"


@pytest.mark.parametrize(
    ("spoilt", "reason"),
    [
        (["-g", "10", "-force_key_frames", "0"], "more frames than planned"),
        (["-force_key_frames", "0", "-g", "1000"], "more frames than planned"),
        (["-profile:v", "nonsense"], "nonsense"),
    ],
)
def test_one_that_works_but_not_as_planned_is_not_used(spoilt: Sequence[str], reason: str) -> None:
    ENCODERS["spoilt"] = Encoder(
        name="spoilt", arguments=lambda plan, rendition: [*fake_gpu.arguments(plan, rendition), *spoilt]
    )
    trial = try_out("spoilt", ffmpeg_binary=binary())
    assert not trial.works
    assert reason in trial.reason


def planned(tmp_path: Path, encoder: str) -> tuple[Path, EncodePlan]:
    source = make_clip(tmp_path / "clip.mp4", frames=110)
    return source, replace(plan_for(source), encoder=encoder)


def options_of(arguments: list[str], option: str) -> list[str]:
    return [value for name, value in pairwise(arguments) if name == option]


@pytest.mark.parametrize("name", hardware_names())
def test_every_one_is_told_where_keyframes_are(tmp_path: Path, name: str) -> None:
    source, plan = planned(tmp_path, name)
    arguments = chunk_arguments(plan, plan.chunk(2), source=source, seek=None, device="/dev/dri/renderD128")
    qualities = len(plan.renditions)
    assert options_of(arguments, "-c:v") == [name] * qualities
    assert options_of(arguments, "-g") == ["25"] * qualities
    assert options_of(arguments, "-force_key_frames") == ["expr:not(mod(n,25))"] * qualities
    assert options_of(arguments, "-bf") == ["0"] * qualities
    assert options_of(arguments, "-flags:v") == ["+bitexact+cgop"] * qualities


def test_vaapi_gets_its_device_and_its_pictures_there(tmp_path: Path) -> None:
    source, plan = planned(tmp_path, "h264_vaapi")
    arguments = chunk_arguments(plan, plan.chunk(1), source=source, seek=None, device="/dev/dri/renderD129")
    assert arguments[:4] == ["-init_hw_device", "vaapi=gpu:/dev/dri/renderD129", "-filter_hw_device", "gpu"]
    (graph,) = options_of(arguments, "-filter_complex")
    assert graph.count("format=nv12,hwupload[out") == len(plan.renditions)
    assert options_of(arguments, "-pix_fmt") == []
    assert all(level.isdigit() for level in options_of(arguments, "-level:v")), "4.0 would be read as 4"


def test_drivers_may_open_their_files_and_reserve_addresses() -> None:
    limits = RunLimits(wall_clock=7)
    assert ENCODERS["libx264"].within(limits) == limits
    freed = ENCODERS["h264_nvenc"].within(limits)
    assert (freed.landlock, freed.wall_clock) == (False, 7)
    assert freed.address_space > 1 << 40


def test_what_gpus_are_told_gives_exact_joins(tmp_path: Path) -> None:
    """The options they share (forced keyframes, no B-frames), with the one encoder that is here."""
    ENCODERS[fake_gpu.NAME] = fake_gpu.LIBX264
    source, plan = planned(tmp_path, fake_gpu.NAME)
    assert on_the_grid(plan)[0] in fake_gpu.arguments(plan, plan.renditions[0])
    assert "-bf" in libx264(plan, plan.renditions[0])
    out = tmp_path / "out"
    encode_all(plan, source, out)
    finish.write_playlists(plan, out)
    conformance.check(out, plan)


def test_another_codec_is_one_entry(tmp_path: Path) -> None:
    ENCODERS[hevc.LIBX265.name] = hevc.LIBX265
    assert try_out(hevc.LIBX265.name, ffmpeg_binary=binary()).works
    source, plan = planned(tmp_path, hevc.LIBX265.name)
    out = tmp_path / "out"
    done = encode_all(plan, source, out)
    finish.write_playlists(plan, out)
    verify.verify(plan, out, files=[file for part in done for file in part.files])
    conformance.check(out, plan, sync=True)
    assert (out / "master.m3u8").read_text().count('CODECS="hvc1.1.6.L') == len(plan.renditions)
    assert encode_all(plan, source, tmp_path / "again") == done, "the same bytes on every worker"
    del ENCODERS[hevc.LIBX265.name]
    with pytest.raises(BadBoxes, match="hvc1"):
        track_header((out / plan.renditions[0].name / "init.mp4").read_bytes())
