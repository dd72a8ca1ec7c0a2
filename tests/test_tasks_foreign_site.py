"""docs/django-tasks.md, followed word by word in a site of somebody else, with the wheel."""

from __future__ import annotations

import re
from textwrap import dedent

import django

from tests.foreign_site import ForeignSite
from tests.support import ROOT
from tests.test_foreign_site import site as site
from tests.test_foreign_site import wheel as wheel

FILE = re.compile(r"^    cat >>? (\S+) <<'EOF'\n(.*?)^    EOF$", re.DOTALL | re.MULTILINE)


def test_the_page_about_tasks_says_what_happens(site: ForeignSite) -> None:
    page = (ROOT / "docs" / "django-tasks.md").read_text()
    files = {name: dedent(text) for name, text in FILE.findall(page)}
    assert list(files) == ["shop/settings.py", "orders/tasks.py", "try_it.py"]
    site.manage("startapp", "orders")
    site.add_to_settings(files["shop/settings.py"])
    if django.VERSION < (6, 0):
        site.add_to_settings('INSTALLED_APPS += ["django_tasks"]')
    site.write("orders/tasks.py", files["orders/tasks.py"])
    site.manage("migrate", "--verbosity=0")
    assert "no issues" in site.manage("check").stdout

    promised = re.findall(r"^print\(.*# (.*)$", files["try_it.py"], re.MULTILINE)
    told = site.manage("shell", "--verbosity=0", "-c", files["try_it.py"])
    assert told.stdout.splitlines() == promised, told.stderr
    assert site.manage("check_invariants").stdout == "Every rule holds.\n"
