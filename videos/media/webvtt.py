"""Captions: cues read from SRT or WebVTT, and written as WebVTT that holds nothing but text and plain marks.

Nothing of the original's text is passed on as it is. It is taken apart, what is known to be harmless is kept
(bold, italics, underline, speaker, class, language, ruby), and everything is written anew and escaped.
"""

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from videos.media.exceptions import MediaError

MOST_BYTES = 10 << 20
MOST_CUES = 50_000
MOST_TEXT = 2_000
LONGEST = Fraction(100 * 3600)

TAGS = {"b", "i", "u", "c", "v", "lang", "ruby", "rt"}
WITH_ANNOTATION = {"v", "lang"}


class BadSubtitles(MediaError):
    """The file holds no captions that we can read. The text is for the person who uploaded it."""

    code = "bad_subtitles"


@dataclass(frozen=True, kw_only=True)
class Cue:
    """Some lines of text, and when they are shown. `text` is WebVTT cue text, already safe."""

    start: Fraction
    end: Fraction
    text: str
    settings: str = ""


def read_captions(data: bytes) -> list[Cue]:
    """The cues of an SRT or WebVTT file, safe and in order; raises BadSubtitles."""
    if len(data) > MOST_BYTES:
        raise BadSubtitles(
            f"The file is too large for subtitles: {len(data) / 1e6:.0f} MB.", code="subtitles_too_large"
        )
    text = _decode(data).replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\ufffd")
    cues = list(_cues(text))
    if not cues:
        raise BadSubtitles("The file holds no subtitles: SRT and WebVTT files work.", code="no_subtitles")
    return sorted(cues, key=lambda cue: (cue.start, cue.end))


def write_webvtt(cues: Iterable[Cue], *, zero: Fraction = Fraction(0)) -> str:
    """A WebVTT file. `zero` is EncodePlan.zero: the media's timestamp that the captions' zero stands for."""
    lines = ["WEBVTT"]
    if zero:
        lines.append(f"X-TIMESTAMP-MAP=MPEGTS:{round(zero * 90000)},LOCAL:00:00:00.000")
    lines.append("")
    for cue in cues:
        lines += [f"{timestamp(cue.start)} --> {timestamp(cue.end)} {cue.settings}".rstrip(), cue.text, ""]
    return "\n".join(lines)


def shifted(cues: Iterable[Cue], by: Fraction, *, until: Fraction = LONGEST) -> list[Cue]:
    """The cues moved in time; what falls out of the programme is dropped or cut."""
    moved = []
    for cue in cues:
        start, end = max(Fraction(0), cue.start + by), min(until, cue.end + by)
        if start < end:
            moved.append(Cue(start=start, end=end, text=cue.text, settings=cue.settings))
    return moved


def timestamp(seconds: Fraction) -> str:
    milliseconds = int(seconds * 1000 + Fraction(1, 2))
    return (
        f"{milliseconds // 3_600_000:02d}:{milliseconds // 60_000 % 60:02d}:"
        f"{milliseconds // 1000 % 60:02d}.{milliseconds % 1000:03d}"
    )


def plain_text(text: str) -> str:
    """Text that is shown as it is, whatever characters it has."""
    return "\n".join(line for line in (_escape(part.strip()) for part in text.split("\n")) if line)


# Reading

_TIME = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})"
_TIMING = re.compile(rf"^\s*{_TIME}\s*-->\s*{_TIME}(.*)$", re.ASCII)
_SETTING = re.compile(
    r"^(?:vertical:(?:rl|lr)|line:-?\d{1,4}(?:\.\d{1,4})?%?(?:,(?:start|center|end))?|"
    r"position:\d{1,3}(?:\.\d{1,4})?%(?:,(?:line-left|center|line-right))?|"
    r"size:\d{1,3}(?:\.\d{1,4})?%|align:(?:start|center|end|left|right))$",
    re.ASCII,
)


def _decode(data: bytes) -> str:
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    zeros = data[:200].count(0)
    if zeros > 20:  # two bytes each, without a mark: which of the two is zero tells the order
        return data.decode(
            "utf-16-be" if data[:200:2].count(0) > zeros / 2 else "utf-16-le", errors="replace"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")  # what most old SRT files are in


def _cues(text: str) -> Iterator[Cue]:
    count = 0
    for block in re.split(r"\n[ \t]*\n", text):
        cue = _cue(block.strip("\n"))
        if cue is not None:
            count += 1
            if count > MOST_CUES:
                raise BadSubtitles(
                    f"The file has more than {MOST_CUES} subtitles.", code="too_many_subtitles"
                )
            yield cue


def _cue(block: str) -> Cue | None:
    lines = block.split("\n")
    for number, line in enumerate(lines[:3]):  # an identifier or counter may come first
        match = _TIMING.match(line)
        if match:
            groups = match.groups()
            start, end = _seconds(groups[:4]), _seconds(groups[4:8])
            text = safe_text("\n".join(lines[number + 1 :]))
            if not text or not start < end <= LONGEST:
                return None
            settings = " ".join(part for part in groups[8].split() if _SETTING.match(part))
            return Cue(start=start, end=end, text=text, settings=settings)
    return None


def _seconds(parts: tuple[str | None, ...]) -> Fraction:
    hours, minutes, seconds, fraction = parts
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0) + Fraction(f"0.{fraction}")


# Making it safe

_TOKEN = re.compile(
    r"<(/?)([a-zA-Z]+)((?:\.[^\s<>.&]+)*)(?:[ \t]+([^<>\n]*))?[^<>\n]*>|<[0-9/!?][^<>\n]*>|\{\\[^{}\n]*\}"
)
_CLASS = re.compile(r"^[a-zA-Z][a-zA-Z0-9_-]{0,30}$", re.ASCII)


def safe_text(text: str) -> str:
    """Cue text with known marks only, each closed, everything else escaped."""
    out: list[str] = []
    open_tags: list[str] = []
    at = 0
    text = text[:MOST_TEXT]
    for match in _TOKEN.finditer(text):
        out.append(_escape(text[at : match.start()]))
        at = match.end()
        closing, name, classes, annotation = (part or "" for part in match.groups())
        name = name.lower()
        if name not in TAGS:
            continue
        if not closing:
            out.append(_opening(name, classes, annotation))
            open_tags.append(name)
        elif name in open_tags:
            while True:
                last = open_tags.pop()
                out.append(f"</{last}>")
                if last == name:
                    break
    out.append(_escape(text[at:]))
    out += [f"</{name}>" for name in reversed(open_tags)]
    return "\n".join(line for line in (line.strip() for line in "".join(out).split("\n")) if line)


def _opening(name: str, classes: str, annotation: str) -> str:
    kept = "".join(f".{part}" for part in classes.split(".") if _CLASS.match(part))
    if name not in WITH_ANNOTATION:
        return f"<{name}{kept}>"
    annotation = _escape(annotation.strip())[:100]
    if name == "lang" and not re.fullmatch(r"[A-Za-z0-9-]{1,35}", annotation):
        return "<lang en>"
    return f"<{name}{kept} {annotation}>" if annotation else f"<{name}{kept}>"


def _escape(text: str) -> str:
    """As WebVTT wants it; also what was escaped before is escaped once, not twice."""
    text = html.unescape(text)
    text = "".join(c for c in text if c == "\n" or c.isprintable() or c in "\u200e\u200f\u00ad")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
