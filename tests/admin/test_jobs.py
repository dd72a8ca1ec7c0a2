"""The list of jobs: the window that it looks through, and the page itself."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from jobs import HIGH, enqueue, enqueue_many
from jobs.admin import filters
from jobs.models import Job
from jobs.ulid import ulid_floor
from tests.support.pages.admin_pages import JOBS, failed_job, finished, shown, text_of
from tests.support.pages.admin_pages import _small_window as _small_window
from tests.support.queue.actors import claim_one

pytestmark = pytest.mark.django_db


@pytest.mark.usefixtures("_small_window")
def test_a_list_shows_the_newest_and_leads_to_all_others(admin_client: Client) -> None:
    enqueue_many("tests.noop", [{}] * 25)
    everything = sorted(Job.objects.values_list("pk", flat=True), reverse=True)
    found, query = [], "?"
    for _ in range(3):
        changelist = admin_client.get(JOBS + query).context["cl"]
        found.append([job.pk for job in changelist.result_list])
        query = changelist.older_query
    assert found == [everything[:10], everything[10:20], everything[20:]]
    assert changelist.window.is_whole
    assert 'class="sp-window"' not in text_of(admin_client.get(JOBS + f"?before={everything[19]}"))
    assert 'class="sp-window"' in text_of(admin_client.get(JOBS))


@pytest.mark.usefixtures("_small_window")
def test_what_an_index_leads_to_is_shown_however_old_it_is(admin_client: Client) -> None:
    old = {failed_job().pk, *(enqueue("tests.noop", delay=delay).pk for delay in (60, 0))}
    running = enqueue("work.record", log="x", priority=HIGH)
    claim_one()
    finished(30)
    assert not old & shown(admin_client)
    for status in ("failed", "waiting", "pending"):
        assert shown(admin_client, status__exact=status) < old, status
        assert shown(admin_client, status__exact=status), status
    assert shown(admin_client, state="unclaimed") < old
    assert shown(admin_client, status__exact="processing") == {running.pk}


@pytest.mark.usefixtures("_small_window")
def test_of_too_many_failed_jobs_the_newest_failed_ones_are_shown(admin_client: Client) -> None:
    dead = finished(12, failed=True)
    finished(30)
    assert shown(admin_client, status__exact="failed") == set(dead[2:])
    assert shown(admin_client, status__exact="failed", before=dead[2]) == set(dead[:2])


@pytest.mark.usefixtures("_small_window")
def test_payloads_are_searched_in_the_window_and_the_page_says_so(admin_client: Client) -> None:
    (old,) = finished(1, text="needle")
    newer = finished(15)
    page = text_of(admin_client.get(JOBS, {"q": "needle"}))
    assert f'data-code="not_found" data-since="{newer[-10]}"' in page
    assert shown(admin_client, q="needle", before=newer[0]) == {old}
    assert shown(admin_client, q=old) == {old}


def test_an_id_tells_when_it_was_made() -> None:
    assert filters.made_at(ulid_floor(0)).startswith(("Jan. 1, 1970", "1 Jan", "1970"))
    assert filters.made_at("nonsense!!") == "nonsense!!"


# -- the page itself ---------------------------------------------------------------------------------------------------


def test_the_list_takes_few_queries_for_many_jobs(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    enqueue_many("tests.noop", [{}] * 120)
    with django_assert_max_num_queries(15):
        page = admin_client.get(JOBS)
    assert len(page.context["cl"].result_list) == page.context["cl"].list_per_page
    with django_assert_max_num_queries(15):
        assert admin_client.get(JOBS, {"q": "nothing", "status__exact": "failed"}).status_code == 200


def test_an_empty_queue_says_what_to_do_first(admin_client: Client) -> None:
    assert "manage.py enqueue" in text_of(admin_client.get(JOBS))


def test_large_payloads_are_not_read_for_the_list(admin_client: Client) -> None:
    enqueue("work.record", log="x" * 100_000)
    page = text_of(admin_client.get(JOBS))
    assert "x" * 100 in page
    assert "x" * 1000 not in page


def test_the_stream_of_the_list_tells_the_state_of_its_jobs(admin_client: Client) -> None:
    job = enqueue("tests.noop")
    answer = admin_client.get(f"{JOBS}live/?job={job.pk}", headers={"accept": "application/json"})
    assert answer.json()[f"job.{job.pk}.status"] == "pending"
    assert admin_client.get(f"{JOBS}live/?job=nonsense").status_code == 400
