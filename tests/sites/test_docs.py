"""Pages of docs/, followed word by word in a site of somebody else, with the wheel."""

from __future__ import annotations

import django
import pytest

from tests.sites.test_foreign_site import site as site
from tests.sites.test_foreign_site import wheel as wheel
from tests.support.processes import free_port
from tests.support.sites.foreign_site import ForeignSite
from tests.support.sites.walkthroughs import follow


@pytest.mark.parametrize(
    ("page", "app"), [("breakers.md", "billing"), ("periodic.md", "till"), ("metrics.md", "feeds")]
)
def test_the_page_says_what_happens(site: ForeignSite, page: str, app: str) -> None:
    follow(site, page, app=app)


def test_the_page_about_alerts_says_what_arrives(site: ForeignSite) -> None:
    elsewhere = f'JOBS["ALERT_WEBHOOK_URL"] = "http://127.0.0.1:{free_port()}/hook"'
    follow(site, "alerts.md", app="feeds", settings=elsewhere)


def test_the_page_about_tasks_says_what_happens(site: ForeignSite) -> None:
    needed = 'INSTALLED_APPS += ["django_tasks"]' if django.VERSION < (6, 0) else ""
    follow(site, "django-tasks.md", app="orders", settings=needed)
