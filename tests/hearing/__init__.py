"""An app for remote workers of tests: an engine that hears the same in every sound, in another language than asked."""

from fractions import Fraction
from pathlib import Path
from typing import Any

from videos.media import recognition
from videos.media.recognition import Heard
from videos.media.webvtt import Cue


class HearsGerman(recognition.PocketSphinx):
    name = "hearing"

    def listen(self, sound: Path, **options: Any) -> Heard:
        assert sound.is_file()
        return Heard([Cue(start=Fraction(0), end=Fraction(1), text="Guten Tag")], language="de")


recognition.available = lambda *args, **kwargs: HearsGerman()
