"""The conformance checker fails what it must fail, and so does the cheaper check before publishing."""

import re
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from tests.support.videos import conformance
from tests.support.videos.media_clips import make_clip, transcode
from videos.media import boxes, finish, headers, verify
from videos.media.boxes import Sample
from videos.media.exceptions import NotConformant
from videos.media.plan import EncodePlan


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, EncodePlan]:
    folder = tmp_path_factory.mktemp("good")
    plan = transcode(make_clip(folder / "clip.mp4", frames=80), folder / "out")
    conformance.check(folder / "out", plan, sync=True)
    return folder / "out", plan


def rewrite(path: Path, change: Callable[[boxes.Fragment], tuple[int, list[Sample]]]) -> None:
    (fragment,) = boxes.fragments(path.read_bytes())
    decode_time, samples = change(fragment)
    path.write_bytes(boxes.media_segment(fragment.sequence, decode_time, samples))


def missing_frame(folder: Path) -> None:
    rewrite(folder / "180p" / "seg_00002.m4s", lambda f: (f.decode_time, f.samples[:-1]))


def missing_frame_hidden_by_longer_ones(folder: Path) -> None:
    """The durations still add up."""

    def change(fragment: boxes.Fragment) -> tuple[int, list[Sample]]:
        kept = fragment.samples[:-1]
        last = kept[-1]
        return fragment.decode_time, [*kept[:-1], last._replace(duration=last.duration * 2)]

    rewrite(folder / "180p" / "seg_00002.m4s", change)


def gap(folder: Path) -> None:
    rewrite(folder / "90p" / "seg_00003.m4s", lambda f: (f.decode_time + 1024, f.samples))


def one_tick(folder: Path) -> None:
    rewrite(folder / "90p" / "seg_00003.m4s", lambda f: (f.decode_time + 1, f.samples))


def two_frames_at_once(folder: Path) -> None:
    def change(fragment: boxes.Fragment) -> tuple[int, list[Sample]]:
        first, second, *rest = fragment.samples
        late = second._replace(shown_after=second.shown_after + second.duration)
        return fragment.decode_time, [first, late, *rest]

    rewrite(folder / "180p" / "seg_00001.m4s", change)


def shifted_sound(folder: Path) -> None:
    for path in sorted((folder / "audio_1_64k").glob("seg_*.m4s")):
        rewrite(path, lambda f: (f.decode_time + 4800, f.samples))


def lost_sound(folder: Path) -> None:
    rewrite(folder / "audio_1_64k" / "seg_00002.m4s", lambda f: (f.decode_time, f.samples[1:]))


def missing_segment(folder: Path) -> None:
    playlist = folder / "180p" / "playlist.m3u8"
    lines = playlist.read_text().splitlines()
    at = lines.index("seg_00002.m4s")
    playlist.write_text("\n".join(lines[: at - 1] + lines[at + 1 :]) + "\n")


def wrong_codecs(folder: Path) -> None:
    master = folder / "master.m3u8"
    master.write_text(re.sub(r"avc1\.\w\w", "avc1.7a", master.read_text()))


def wrong_duration(folder: Path) -> None:
    playlist = folder / "180p" / "playlist.m3u8"
    playlist.write_text(playlist.read_text().replace("#EXTINF:1.000000", "#EXTINF:1.001000", 1))


def init_of_another_rendition(folder: Path) -> None:
    shutil.copy(folder / "90p" / "init.mp4", folder / "180p" / "init.mp4")


def keyframe_elsewhere(folder: Path) -> None:
    rewrite(
        folder / "90p" / "seg_00002.m4s",
        lambda f: (f.decode_time, [s._replace(keyframe=False) for s in f.samples]),
    )


BROKEN = [
    missing_frame,
    missing_frame_hidden_by_longer_ones,
    gap,
    one_tick,
    two_frames_at_once,
    shifted_sound,
    lost_sound,
    missing_segment,
    wrong_codecs,
    wrong_duration,
    init_of_another_rendition,
    keyframe_elsewhere,
]


@pytest.mark.parametrize("damage", BROKEN)
def test_what_is_broken_is_found_by_both(
    good: tuple[Path, EncodePlan], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    folder, plan = tmp_path / "broken", good[1]
    shutil.copytree(good[0], folder)
    damage(folder)
    with pytest.raises(AssertionError):
        conformance.check(folder, plan, sync=True)
    with pytest.raises(NotConformant):
        verify.verify(plan, folder)


def test_sound_shifted_with_its_own_samples_is_found_by_the_flashes(
    good: tuple[Path, EncodePlan], tmp_path: Path
) -> None:
    """All timestamps are right, but the samples come 85 ms late."""
    folder, plan = tmp_path / "late", good[1]
    shutil.copytree(good[0], folder)
    parts = sorted((folder / "audio_1_64k").glob("seg_*.m4s"))
    samples = [
        sample
        for path in parts
        for fragment in boxes.fragments(path.read_bytes())
        for sample in fragment.samples
    ]
    late = iter(samples[:4] + samples[:-4])
    for path in parts:
        rewrite(path, lambda f: (f.decode_time, [next(late) for _ in f.samples]))
    finish.write_playlists(plan, folder)
    verify.verify(plan, folder)
    conformance.check(folder, plan)
    with pytest.raises(AssertionError, match="ms off the picture"):
        conformance.check(folder, plan, sync=True)


def test_a_wrong_bandwidth_is_found(good: tuple[Path, EncodePlan], tmp_path: Path) -> None:
    folder, plan = tmp_path / "bandwidth", good[1]
    shutil.copytree(good[0], folder)
    master = folder / "master.m3u8"
    master.write_text(master.read_text().replace(":BANDWIDTH=", ":BANDWIDTH=1"))
    with pytest.raises(AssertionError, match="BANDWIDTH"):
        conformance.check(folder, plan)


def test_a_file_that_changed_after_it_was_written_is_found(
    good: tuple[Path, EncodePlan], tmp_path: Path
) -> None:
    from videos.media.encode import Written

    folder, plan = good
    name = "180p/seg_00001.m4s"
    right = Written(name=name, size=(folder / name).stat().st_size, sha256="0" * 64)
    absent = Written(name="180p/seg_99999.m4s", size=1, sha256="")
    for wrong in (right, absent):
        with pytest.raises(NotConformant) as caught:
            verify.verify(plan, folder, files=[wrong])
        assert [problem.startswith(wrong.name) for problem in caught.value.problems] == [True]


def test_only_some_qualities(good: tuple[Path, EncodePlan], tmp_path: Path) -> None:
    folder, plan = tmp_path / "some", good[1]
    shutil.copytree(good[0], folder)
    shutil.rmtree(folder / "180p")
    shutil.rmtree(folder / "audio_1_64k")
    finish.write_playlists(plan, folder, qualities=["90p"])
    verify.verify(plan, folder, qualities=["90p"])
    with pytest.raises(NotConformant):
        verify.verify(plan, folder)


def test_boxes_are_read_as_they_were_written() -> None:
    samples = [
        Sample(512, 1024, True, b"abc"),
        Sample(512, 0, False, b""),
        Sample(512, 2048, False, b"x" * 1000),
    ]
    (fragment,) = boxes.fragments(boxes.media_segment(7, 1 << 40, samples))
    assert (fragment.sequence, fragment.decode_time, fragment.samples) == (7, 1 << 40, samples)
    uneven = [Sample(1, 0, True, b"a"), Sample(2, 0, True, b"b")]
    (fragment,) = boxes.fragments(boxes.media_segment(1, 0, uneven))
    assert fragment.samples == uneven


@pytest.mark.parametrize("data", [b"", b"\x00\x00\x00\x07moov", b"\x00\x00\x10\x00moof", b"\xff" * 40])
def test_nonsense_instead_of_boxes(data: bytes) -> None:
    with pytest.raises(boxes.BadBoxes):
        headers.track_header(data)


def test_the_zero_of_the_programme_makes_every_offset_positive(good: tuple[Path, EncodePlan]) -> None:
    folder, plan = good
    assert plan.zero == Fraction(2, 25)
    for path in (folder / "180p").glob("seg_*.m4s"):
        (fragment,) = boxes.fragments(path.read_bytes())
        assert min(sample.shown_after for sample in fragment.samples) >= 0
