"""docs/settings.md says what the code says."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from jobs.conf import JobsSettings, parse_duration
from project import settings_table
from tests.support import ROOT
from videos.conf import VideosSettings


def test_the_table_is_up_to_date() -> None:
    written = (ROOT / "docs" / "settings.md").read_text()
    assert written == settings_table.render(), "run `python -m project.settings_table > docs/settings.md`"


def test_every_setting_is_in_it_with_what_it_is_for() -> None:
    table = settings_table.render()
    for field in [*fields(JobsSettings), *fields(VideosSettings)]:
        assert f"| `{field.name.upper()}` |" in table
        assert field.metadata["help"]


@pytest.mark.parametrize(
    "value",
    [timedelta(seconds=90), timedelta(days=30), timedelta(hours=1), timedelta(milliseconds=100)],
)
def test_a_duration_is_written_as_it_is_read(value: timedelta) -> None:
    assert parse_duration(settings_table.in_words(value)) == value


@pytest.mark.parametrize(
    ("value", "words"), [(True, "true"), (1_000_000, "1_000_000"), ("auto", "auto"), ("", "")]
)
def test_other_values_are_written_as_they_are_read(value: Any, words: str) -> None:
    assert settings_table.in_words(value) == words
