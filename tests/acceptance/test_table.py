"""docs/seeds.md says what the tests' docstrings say, and leaves out none of them."""

from __future__ import annotations

import re

from tests.acceptance import table
from tests.support import ROOT


def test_the_table_is_up_to_date() -> None:
    written = (ROOT / "docs" / "seeds.md").read_text()
    assert written == table.render(), "run `python -m tests.acceptance.table > docs/seeds.md`"


def test_every_test_of_a_seed_says_which_of_its_statements_it_shows() -> None:
    for module, test in table.tests():
        if of_seed := re.match(r"test_seed_(\d{3})", module):
            seeds = {statement.seed for statement in table.statements_of(module, test)}
            assert seeds == {of_seed[1]}, f"{module}.{test.name}"


def test_every_section_of_every_seed_has_a_statement() -> None:
    found = {(statement.seed, statement.section) for statement in table.all_statements()}
    assert found == {(seed, section) for seed, sections in table.SECTIONS.items() for section in sections}


def test_no_statement_is_listed_twice() -> None:
    listed = [(one.seed, one.section, one.words) for one in table.all_statements()]
    assert sorted(set(listed)) == sorted(listed)
