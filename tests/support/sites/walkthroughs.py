"""Pages of docs/ that somebody follows in an empty folder: the files they write, and what they promise is printed."""

from __future__ import annotations

import re
from textwrap import dedent

from tests.support import ROOT
from tests.support.sites.foreign_site import ForeignSite

_FILE = re.compile(r"^    cat >>? (\S+) <<'EOF'\n(.*?)^    EOF$", re.DOTALL | re.MULTILINE)
_PROMISE = re.compile(r"^ *print\(.* # (.*)$", re.MULTILINE)


def follow(site: ForeignSite, page: str, *, app: str, settings: str = "") -> None:
    """Write its files, migrate, run try_it.py; each print says what its comment does."""
    files = {name: dedent(text) for name, text in _FILE.findall((ROOT / "docs" / page).read_text())}
    site.manage("startapp", app)
    site.add_to_settings(files.pop("shop/settings.py"))
    site.add_to_settings(settings)
    script = files.pop("try_it.py")
    for name, text in files.items():
        site.write(name, text)
    site.manage("migrate", "--verbosity=0")
    assert "no issues" in site.manage("check").stdout
    promised = [words.strip() for words in _PROMISE.findall(script)]
    assert promised
    told = site.manage("shell", "--verbosity=0", "-c", script)
    assert told.stdout.splitlines() == promised, told.stderr
    assert site.manage("check_invariants").returncode == 0
