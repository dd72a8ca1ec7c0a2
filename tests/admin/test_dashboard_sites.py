"""The dashboard on admin sites, ours and somebody's own: its summary on the first page, and who may see what."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin
from django.test import Client

from jobs import enqueue
from jobs.dashboard.addresses import Addresses
from jobs.models import Dashboard, JobTypeState
from tests.support.pages.admin_pages import client_of
from tests.support.pages.dashboard_pages import PAGE, SWITCH, show, state_of
from tests.support.queue.actors import claim_one, new_worker

pytestmark = pytest.mark.django_db


def test_the_first_page_shows_the_summary(admin_client: Client) -> None:
    enqueue("tests.noop")
    page = show(admin_client, "/admin/")
    assert 'class="sp-summary"' in page
    assert f'href="{PAGE}"' in page
    assert "Site administration" in page, "and the rest of the page"
    assert "Recent actions" in page
    places = set(re.findall(r'data-live(?:-show|-hide)?="([^"]+)"', page))
    assert places <= set(state_of(admin_client, "?summary"))


def test_the_first_page_is_as_before_for_who_may_not_see_jobs() -> None:
    page = show(client_of("view_user"), "/admin/")
    assert "data-live" not in page
    assert "sp-summary" not in page


def test_a_site_keeps_its_own_first_page() -> None:
    class HostSite(admin.AdminSite):
        index_template = "host/index.html"

    from jobs.admin.dashboard import DashboardAdmin

    own, plain = HostSite(name="own"), admin.AdminSite(name="plain")
    for site in (own, plain):
        site.register(Dashboard, DashboardAdmin)
    assert own.index_template == "host/index.html"
    assert plain.index_template == "admin/jobs/index.html"


@pytest.mark.urls("tests.support.pages.own_admin")
def test_an_admin_site_of_somebodys_own_has_it_all(admin_client: Client) -> None:
    """At its own address, with its own looks; nothing points to another site, or to pages that it does not have."""
    enqueue("tests.noop")
    claim_one()
    page = show(admin_client, "/office/jobs/dashboard/")
    assert "The office" in page
    assert 'data-live-source="/office/jobs/dashboard/live/?dashboard"' in page
    assert '="/admin/' not in page
    assert 'href=""' not in page
    first_page = show(admin_client, "/office/")
    assert 'class="sp-summary"' in first_page
    assert 'href="/office/jobs/dashboard/"' in first_page
    answer = admin_client.get(
        "/office/jobs/dashboard/live/?dashboard", headers={"Accept": "application/json"}
    )
    assert "/admin/" not in answer.content.decode()
    answer = admin_client.post("/office/jobs/dashboard/types/", {"name": "tests.noop", "do": "pause"})
    assert answer["Location"] == "/office/jobs/dashboard/#types"


def test_links_that_a_site_does_not_have_are_left_out() -> None:
    assert Addresses("admin").job("1").endswith("/jobs/job/1/change/")
    assert Addresses("admin").jobs(type="a b").endswith("/jobs/job/?type=a+b")


# -- who may ---------------------------------------------------------------------------------------------------------


def test_strangers_are_sent_to_the_login_and_their_scripts_are_told(client: Client) -> None:
    assert "/admin/login/" in client.get(PAGE)["Location"]
    assert "/admin/login/" in client.post(SWITCH, {"name": "tests.noop", "do": "pause"})["Location"]
    assert client.get(f"{PAGE}live/?dashboard").status_code == 401
    assert not JobTypeState.objects.exists()


def test_staff_without_rights_see_nothing_of_it() -> None:
    client = client_of()
    assert client.get(PAGE).status_code == 403
    assert client.get(f"{PAGE}live/?dashboard").status_code == 403
    assert client.post(SWITCH, {"name": "tests.noop", "do": "pause"}).status_code == 403
    assert PAGE not in show(client, "/admin/")


def test_who_may_see_jobs_sees_neither_workers_nor_types() -> None:
    client = client_of("view_job")
    new_worker(name="miller")
    page = show(client)
    assert "miller" not in page
    assert 'id="types"' not in page
    state = state_of(client)
    assert "workers" not in state
    assert not any(key.startswith("type.") for key in state)


def test_who_may_only_look_has_no_switches() -> None:
    client = client_of("view_job", "view_worker", "view_jobtypestate")
    new_worker(name="miller")
    page = show(client)
    assert "miller" in page
    assert "tests.noop" in page
    assert 'name="do"' not in page
    assert client.post(SWITCH, {"name": "tests.noop", "do": "pause"}).status_code == 403
    assert not JobTypeState.objects.exists()
