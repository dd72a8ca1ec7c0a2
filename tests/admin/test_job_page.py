"""The page of one job: its story, its workflow as a picture, and buttons for what is possible now."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from jobs import HIGH, enqueue, enqueue_many, lifecycle, optional, workflow
from jobs.admin import links, story, workflow_picture
from jobs.admin.links import Link
from jobs.admin.verbs import BY_NAME
from jobs.lifecycle import FailureReport, ProgressReport
from jobs.models import Event, Job, JobTypeState
from tests.support.pages.admin_pages import EVIL, PERMANENT, failed_job, press, said, text_of
from tests.support.pages.codes import codes_on, numbers_in, told
from tests.support.queue.actors import claim_one, new_worker, status_of, stored

pytestmark = pytest.mark.django_db


def page_of(job: Job) -> str:
    return reverse("admin:jobs_job_change", args=[job.pk])


def buttons(client: Client, job: Job) -> set[str]:
    """The verbs that the page offers."""
    page = text_of(client.get(page_of(job)))
    forms = re.findall(r'<form method="post" action="[^"]*/act/"([^>]*)>(.*?)</form>', page, re.DOTALL)
    shown = [body for attributes, body in forms if "hidden" not in attributes]
    return {verb for body in shown for verb in re.findall(r'name="verb" value="(\w+)"', body)}


# -- what it shows -----------------------------------------------------------------------------------------------------


def test_the_page_tells_the_whole_story(admin_client: Client) -> None:
    job = enqueue("tests.noop", submitter="shop")
    worker = new_worker(name="encoder-7")
    report = FailureReport("ValueError", "the first line", "Traceback (most recent call last): deep inside")
    lifecycle.fail(claim_one(worker).lease, report)
    lifecycle.run_now(job.pk, actor="anna")
    page = text_of(admin_client.get(page_of(job)))
    timeline = re.findall(r'<li data-code="(\w+)" data-status="\w+">(.*?)</li>', page, re.DOTALL)
    assert [code for code, _ in timeline] == ["created", "attempt_started", "attempt_failed", "changed"]
    for (_, line), facts in zip(timeline, ("shop", "encoder-7", "the first line", "anna"), strict=True):
        assert facts in line
    assert re.search(r"<details><summary>[^<]+</summary><pre[^>]*>Traceback \(most recent", page)


def test_payload_and_result_are_readable(admin_client: Client) -> None:
    job = enqueue("work.record", {"log": {"deep": ["ü", 1]}})
    lifecycle.complete(claim_one().lease, {"sum": 3})
    page = text_of(admin_client.get(page_of(job)))
    assert "&quot;deep&quot;: [\n      &quot;ü&quot;,\n      1" in page
    assert "{\n  &quot;sum&quot;: 3\n}" in page


def test_a_running_job_shows_its_bar_and_its_end(admin_client: Client) -> None:
    job = enqueue("tests.noop")
    lease = claim_one().lease
    lifecycle.report_progress([ProgressReport(lease, 40, "half way")])
    page = text_of(admin_client.get(page_of(job)))
    assert re.search(r'<progress class="sp-bar sp-tall"[^>]* value="40.0"', page)
    assert "half way" in page
    assert f'data-live="job.{job.pk}.eta"' in page


@pytest.mark.parametrize("which", ["paused", "nobody", "ready"])
def test_a_pending_job_says_why_nothing_happens(admin_client: Client, which: str) -> None:
    job = enqueue("tests.noop")
    if which != "nobody":
        new_worker()
    if which == "paused":
        JobTypeState.objects.update_or_create(pk="tests.noop", defaults={"paused": True})
    wanted = {"paused": "type_paused", "nobody": "no_worker", "ready": "ready"}
    assert codes_on(text_of(admin_client.get(page_of(job))))[0] == wanted[which]


def test_a_blocked_job_says_what_it_waits_for_and_a_cancelled_one_why() -> None:
    with workflow("w") as flow:
        first, other = flow.add("tests.noop"), flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first, other])
    waits = story.explain(stored(second))
    assert waits.code == "blocked"
    assert [(needed.type, needed.count) for needed in waits.jobs] == [("tests.noop", 2)]
    lifecycle.fail(claim_one().lease, PERMANENT)
    cancelled = story.explain(stored(second))
    assert (cancelled.code, [needed.id for needed in cancelled.jobs]) == ("cancelled_because", [first.pk])


def test_a_waiting_job_says_whether_it_was_tried_before() -> None:
    assert story.explain(stored(enqueue("tests.noop", delay=60))).code == "scheduled"
    tried = enqueue("tests.noop")
    lifecycle.fail(claim_one().lease, FailureReport("ValueError", "no"))
    assert story.explain(stored(tried)).code == "retrying"


def test_the_page_leads_to_parent_children_and_what_the_job_is_about(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = enqueue("tests.noop")
    child = enqueue("tests.noop")
    Job.objects.filter(pk=child.pk).update(parent=parent)

    def broken(job: Job) -> Any:
        raise KeyError("payload")

    monkeypatch.setattr(links, "_providers", [broken, lambda job: [Link(f"Film {EVIL}", "/films/7/")]])
    of_child, of_parent = (text_of(admin_client.get(page_of(job))) for job in (child, parent))
    assert page_of(parent) in of_child
    assert page_of(child) in of_parent
    assert '<a href="/films/7/">Film &lt;script&gt;' in of_parent


def test_a_job_that_is_gone_is_not_found(admin_client: Client) -> None:
    for name in ("01H" + "0" * 23, "nonsense", "%00", "ü" * 300):
        assert admin_client.get(f"/admin/jobs/job/{name}/change/").status_code == 404, name


# -- the picture -------------------------------------------------------------------------------------------------------


def video_like(chunks: int) -> tuple[list[Job], Job]:
    with workflow(f"film {EVIL}") as flow:
        first = flow.add("tests.noop")
        encodes = [flow.add("work.record", log=str(n), after=[first]) for n in range(chunks)]
        side = flow.add("work.fail", log="x", after=[first])
        last = flow.add("tests.noop", after=[*encodes, optional(side)])
    return encodes, last


def test_a_workflow_of_forty_jobs_is_a_readable_picture(admin_client: Client) -> None:
    encodes, last = video_like(40)
    page = text_of(admin_client.get(page_of(last)))
    assert page.count('class="sp-box') == 4
    assert "×40" in page
    assert [
        numbers_in(text) for text in re.findall(r'class="sp-said"[^>]*>([^<]*)<', page) if "40" in text
    ] == [[0, 40]]
    assert page.count('data-kind="optional"') == 1
    assert "film &lt;script&gt;" in page
    picture = workflow_picture.context(stored(encodes[3]), "admin")
    assert picture is not None
    assert [box["count"] for box in picture["boxes"] if box["is_here"]] == [40]


def test_the_boxes_of_the_picture_lead_to_their_jobs(admin_client: Client) -> None:
    encodes, last = video_like(40)
    page = text_of(admin_client.get(page_of(encodes[0])))
    assert f'<a href="{page_of(last)}"><g' in page
    (group,) = re.findall(r'<a href="([^"]*workflow=[^"]*)"', page)
    listed = admin_client.get(group.replace("&amp;", "&")).context["cl"].result_list
    assert {job.pk for job in listed} == {job.pk for job in encodes}


def test_relatives_without_a_workflow_are_a_picture_too() -> None:
    parent, child, stranger = (enqueue("tests.noop") for _ in range(3))
    Job.objects.filter(pk=child.pk).update(parent=parent)
    picture = workflow_picture.context(stored(parent), "admin")
    assert picture is not None
    assert {box["key"] for box in picture["boxes"]} == {parent.pk, child.pk}
    assert workflow_picture.context(stored(stranger), "admin") is None


def test_a_detail_page_takes_few_queries(admin_client: Client, django_assert_max_num_queries: Any) -> None:
    encodes, _ = video_like(300)
    with django_assert_max_num_queries(15):
        page = admin_client.get(page_of(encodes[7]))
    assert encodes[7].pk in text_of(page)


# -- buttons -----------------------------------------------------------------------------------------------------------


def test_the_buttons_are_what_is_possible_and_only_that(admin_client: Client) -> None:
    failed = failed_job()
    completed = enqueue("tests.noop")
    lifecycle.complete(claim_one().lease, None)
    running = enqueue("tests.noop")
    claim_one()
    with workflow("w") as flow:
        blocked = flow.add("tests.noop", after=[flow.add("tests.noop")])
    pending, delayed = enqueue("tests.noop"), enqueue("tests.noop", delay=60)
    assert buttons(admin_client, failed) == {"retry", "discard"}
    assert buttons(admin_client, completed) == {"discard"}
    assert buttons(admin_client, running) == {"cancel"}
    assert buttons(admin_client, blocked) == {"cancel", "change_priority"}
    assert buttons(admin_client, pending) == {"cancel", "change_priority"}
    assert buttons(admin_client, delayed) == {"cancel", "change_priority", "run_now"}


def test_a_failed_job_is_retried_and_the_page_says_so(admin_client: Client) -> None:
    job = failed_job()
    answer = press(admin_client, "retry", job)
    assert told(answer) == ["job_retry success"]
    assert job.pk in said(answer)[0]
    assert answer["Location"] == page_of(job)
    assert status_of(job) == "pending"
    assert LogEntry.objects.get().change_message == BY_NAME["retry"].done
    assert Event.objects.get(kind="retried").actor == "admin"


def test_each_button_does_what_it_says(admin_client: Client) -> None:
    delayed, other = enqueue("tests.noop", delay=60), enqueue("tests.noop")
    press(admin_client, "run_now", delayed)
    press(admin_client, "change_priority", other, priority=str(HIGH))
    assert (status_of(delayed), stored(other).priority) == ("pending", HIGH)
    press(admin_client, "cancel", other)
    assert status_of(other) == "cancelled"
    assert press(admin_client, "discard", other)["Location"] == reverse("admin:jobs_job_changelist")
    assert not Job.objects.filter(pk=other.pk).exists()
    assert LogEntry.objects.count() == 4


def test_what_came_back_with_a_retry_is_told(admin_client: Client) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
    lifecycle.fail(claim_one().lease, PERMANENT)
    answer = press(admin_client, "retry", first)
    assert told(answer) == ["job_retry success"]
    assert numbers_in(said(answer)[0].partition(first.pk)[2]) == [1], "more that depended on it"
    assert (status_of(first), status_of(second)) == ("pending", "waiting")


def test_a_double_click_does_it_once(admin_client: Client) -> None:
    """Also when the job has failed again in between."""
    job = failed_job()
    seen = admin_client.get(page_of(job)).context["seen"]
    data = {"verb": "retry", "seen": seen}
    act = reverse("admin:jobs_job_act", args=[job.pk])
    admin_client.post(act, data)
    again = admin_client.post(act, data)
    assert told(again)[-1] == "job_stale warning"
    assert "pending" in said(again)[-1]
    lifecycle.fail(claim_one().lease, PERMANENT)
    again = admin_client.post(act, data)
    assert told(again)[-1] == "job_stale warning"
    assert "failed" in said(again)[-1]
    assert (status_of(job), Event.objects.filter(kind="retried").count()) == ("failed", 1)
    assert LogEntry.objects.count() == 1


def test_a_refusal_is_told_with_its_reason(admin_client: Client) -> None:
    with workflow("w") as flow:
        first = flow.add("tests.noop")
        second = flow.add("tests.noop", after=[first])
    lifecycle.fail(claim_one().lease, PERMANENT)
    answer = press(admin_client, "retry", second)
    assert told(answer) == ["job_refused error"]
    assert first.pk in said(answer)[0]
    assert second.pk in said(answer)[0]
    assert not LogEntry.objects.exists()


def test_buttons_that_do_not_exist_do_nothing(admin_client: Client) -> None:
    job = failed_job()
    assert press(admin_client, "delete", job).status_code == 400
    assert admin_client.get(reverse("admin:jobs_job_act", args=[job.pk])).status_code == 405
    assert admin_client.post(page_of(job), {"status": "completed"}).status_code == 405
    assert status_of(job) == "failed"


# -- live --------------------------------------------------------------------------------------------------------------


def live_state(client: Client, job: Job) -> dict[str, Any]:
    answer = client.get(reverse("admin:jobs_job_live", args=[job.pk]), headers={"accept": "application/json"})
    assert answer.status_code == 200
    state: dict[str, Any] = json.loads(answer.content)
    return state


def test_the_stream_has_everything_that_moves_on_the_page(admin_client: Client) -> None:
    encodes, _ = video_like(20)
    job = encodes[0]
    names = set(re.findall(r'data-live(?:-show)?="([^"]+)"', text_of(admin_client.get(page_of(job)))))
    before = live_state(admin_client, job)
    assert names
    assert names <= set(before)
    lifecycle.cancel(job.pk)
    after = live_state(admin_client, job)
    assert after[f"job.{job.pk}.status"] == "cancelled"
    assert (before[f"job.{job.pk}.can_retry"], after[f"job.{job.pk}.can_retry"]) == (False, True)
    assert before[f"job.{job.pk}.seen"] != after[f"job.{job.pk}.seen"]
    assert 'class="sp-part" data-status="cancelled"' not in before[f"job.{job.pk}.picture"]["html"]
    assert 'class="sp-part" data-status="cancelled"' in after[f"job.{job.pk}.picture"]["html"]
    assert codes_on(after[f"job.{job.pk}.timeline"]["html"]) == ["created", "cancelled"]


def test_the_stream_of_a_discarded_job_is_empty_not_broken(admin_client: Client) -> None:
    from jobs.admin import job_page

    job = failed_job()
    topics = job_page.live_topics(job, "admin")
    lifecycle.discard(job.pk)
    assert [topic.read() for topic in topics] == [{}, {}]


def test_many_attempts_and_events_are_shortened(admin_client: Client) -> None:
    job = enqueue("tests.noop", delay=60)
    Event.record([job.pk] * (story.MOST_EVENTS + 5), "changed", detail="again")  # type: ignore[arg-type]
    assert len(story.tell(stored(job)).timeline) == story.MOST_EVENTS + 1
    assert story.tell(stored(job)).is_shortened


def test_other_jobs_are_not_in_the_story() -> None:
    job = enqueue("tests.noop", delay=60)
    enqueue_many("tests.noop", [{}] * 3)
    lifecycle.cancel([pk for pk in Job.objects.values_list("pk", flat=True) if pk != job.pk])
    assert [moment.code for moment in story.tell(stored(job)).timeline] == ["created"]
