"""Captions from strangers: read, made safe, written anew."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.videos.codes import coded
from videos.media.webvtt import (
    BadSubtitles,
    Cue,
    plain_text,
    read_captions,
    safe_text,
    shifted,
    timestamp,
    write_webvtt,
)

SRT = """1
00:00:01,000 --> 00:00:02,500
Hello <i>there</i>,
second line

2
00:01:00,5 --> 00:01:02,000
<font color="red">No fonts</font> {\\an8}here
"""


def test_srt_becomes_webvtt() -> None:
    assert write_webvtt(read_captions(SRT.encode())) == (
        "WEBVTT\n\n00:00:01.000 --> 00:00:02.500\nHello <i>there</i>,\nsecond line\n\n"
        "00:01:00.500 --> 00:01:02.000\nNo fonts here\n"
    )


def test_webvtt_keeps_places_and_speakers_but_no_styles_or_notes() -> None:
    vtt = (
        "WEBVTT - title\n\nSTYLE\n::cue { background: url(http://evil) }\n\nNOTE a --> b\n\nREGION\nid:x\n\nname\n"
        '01:00.000 --> 01:01.000 align:start line:10% region:x onclick:1\n<v Fred>Hi</v> <c.loud.x"y>there</c>\n'
    )
    assert write_webvtt(read_captions(vtt.encode())) == (
        "WEBVTT\n\n00:01:00.000 --> 00:01:01.000 align:start line:10%\n<v Fred>Hi</v> <c.loud>there</c>\n"
    )


@pytest.mark.parametrize(
    ("hostile", "safe"),
    [
        ("<script>alert(1)</script>", "alert(1)"),
        ("<img src=x onerror=alert(1)>", ""),
        ("<b onclick=x>bold", "<b>bold</b>"),
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("&lt;script&gt; &amp;amp;", "&lt;script&gt; &amp;amp;"),
        ("x --> y", "x --&gt; y"),
        ("</b></i>", ""),
        ("<b><i>x</b></i>", "<b><i>x</i></b>"),
        ('<v Fred"onload=x>hi', '<v Fred"onload=x>hi</v>'),
        ("<v <b>x", "&lt;v <b>x</b>"),
        ("<lang javascript:x>x</lang>", "<lang en>x</lang>"),
        ("<00:00:01.000>karaoke", "karaoke"),
        ("a\u202eb\x07c", "abc"),
        ("<a href='javascript:x'>link</a>", "link"),
    ],
)
def test_hostile_marks_are_gone(hostile: str, safe: str) -> None:
    assert safe_text(hostile) == safe


@given(st.text(alphabet="<>/bicv. &;\n-\"'{}\\x&lt", max_size=60))
def test_whatever_comes_in_only_known_tags_come_out_and_a_second_pass_changes_nothing(text: str) -> None:
    safe = safe_text(text)
    assert safe_text(safe) == safe
    assert "-->" not in safe
    assert "\n\n" not in safe
    assert safe.count("<") == safe.count(">")


@given(st.binary(max_size=300))
def test_nonsense_is_refused_or_read(data: bytes) -> None:
    for prefix in (b"", b"WEBVTT\n\n", b"1\n00:00:01,000 --> 00:00:02,000\n"):
        try:
            text = write_webvtt(read_captions(prefix + data))
        except BadSubtitles:
            continue
        text.encode()
        assert text.startswith("WEBVTT")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(encoding: str) -> None:
    data = "1\r\n00:00:01,000 --> 00:00:02,000\r\nGrüße à tous\r\n".encode(encoding)
    assert read_captions(data)[0].text == "Grüße à tous"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "WEBVTT",
        "hello",
        "00:00:02,000 --> 00:00:01,000\nback",
        "99:99:99,999 --> 0:0:0,0\nx",
        "a" * 100_000,
    ],
)
def test_what_holds_no_cue_is_refused(text: str) -> None:
    with pytest.raises(BadSubtitles, check=coded("no_subtitles")):
        read_captions(text.encode())


def test_too_much_is_refused() -> None:
    with pytest.raises(BadSubtitles, check=coded("subtitles_too_large")):
        read_captions(b"x" * (11 << 20))
    with pytest.raises(BadSubtitles, check=coded("too_many_subtitles")):
        read_captions(b"00:00:01.000 --> 00:00:02.000\nx\n\n" * 50_001)


def test_cues_are_shifted_and_cut() -> None:
    cues = [Cue(start=Fraction(n), end=Fraction(n + 2), text=str(n)) for n in (0, 1, 9, 20)]
    left = shifted(cues, Fraction(-2), until=Fraction(8))
    assert [(int(cue.start), int(cue.end), cue.text) for cue in left] == [(0, 1, "1"), (7, 8, "9")]


def test_the_media_clock_is_named() -> None:
    assert "X-TIMESTAMP-MAP=MPEGTS:7200,LOCAL:00:00:00.000" in write_webvtt([], zero=Fraction(2, 25))


def test_timestamps_and_plain_text() -> None:
    assert timestamp(Fraction(3_723_456, 1000)) == "01:02:03.456"
    assert timestamp(Fraction(99999, 100000)) == "00:00:01.000"
    assert plain_text("a <b>\n\n c ") == "a &lt;b&gt;\nc"
