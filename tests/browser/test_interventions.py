"""What people do when something is wrong, in the browser: drain a worker, follow a workflow, retry one quality."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.support.browser import films
from tests.support.browser.site import Site


def test_a_worker_is_drained_and_leaves(page: Page, site: Site) -> None:
    leaver = site.start("runworker", "--name=leaver", "--types=tests.noop")
    site.backstage.call(_wait_for_worker, "leaver")
    page.goto("/admin/jobs/worker/")
    page.get_by_role("link", name="leaver").click()
    page.get_by_role("button", name="Drain").click()
    expect(page.locator(".messagelist .success")).to_be_visible()
    expect(page.locator(".sp-head .sp-badge").first).to_have_attribute("data-status", "offline")
    assert leaver.wait(60) == 0, "it has left by itself, in good order"
    site.forget(leaver)
    expect(page.get_by_role("button", name="Drain")).to_have_count(0)


def test_the_picture_of_a_workflow_has_the_colours_of_its_jobs(
    page: Page, site: Site, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    first, last = site.backstage.call(_plan, str(tmp_path / "log"), str(gate))
    page.goto(f"/admin/jobs/job/{last}/change/")
    box = page.locator(".sp-picture a:has([data-status])")
    expect(box).to_have_count(2)
    expect(page.locator(f".sp-picture a[href*='{first}'] .sp-box")).to_have_attribute(
        "data-status", "processing"
    )
    expect(page.locator(".sp-picture .sp-here")).to_have_attribute("data-status", "waiting")
    gate.touch()
    expect(page.locator(".sp-picture .sp-box[data-status=completed]")).to_have_count(2)
    page.locator(f".sp-picture a[href*='{first}']").click()
    expect(page).to_have_url(f"{site.url}/admin/jobs/job/{first}/change/")


def test_one_quality_that_failed_is_retried(page: Page, site: Site) -> None:
    video_id = site.backstage.call(films.publish, films.clip(), "halved", title="Halved")
    site.backstage.call(_lose_quality, video_id, "480p")
    page.goto(f"/admin/videos/video/{video_id}/change/")
    expect(page.get_by_role("button", name="Retry 360p")).to_have_count(0)
    page.get_by_role("button", name="Retry 480p").click()
    expect(page.locator(".messagelist .success.done_retry_quality")).to_contain_text("480p")
    expect(page.locator("#v-stage")).to_have_attribute("data-generation", "2")
    expect(page.get_by_role("progressbar", name="480p")).to_have_js_property("value", 100)
    expect(page.get_by_role("button", name="Retry 480p")).to_have_count(0)


# -- backstage -------------------------------------------------------------------------------------------------------


def _wait_for_worker(name: str) -> None:
    from jobs.models import Worker
    from tests.support.processes import wait_until

    wait_until(lambda: Worker.objects.filter(name=name, last_heartbeat__isnull=False).exists())


def _plan(log: str, gate: str) -> tuple[str, str]:
    from jobs import workflow

    with workflow("two steps") as flow:
        first = flow.add("work.progress", log=log, gate=gate, by=0.005)
        return str(first.pk), str(flow.add("tests.noop", after=[first]).pk)


def _lose_quality(video_id: str, quality: str) -> None:
    """As a transcode leaves it in which a quality that is not critical could not be encoded."""
    from videos.models import QualityStatus, Video

    transcode = Video.objects.get(pk=video_id).current
    assert transcode is not None
    transcode.qualities.filter(quality=quality).update(
        status=QualityStatus.FAILED, completed_at=None, error_message="too hard"
    )
    transcode.renditions.filter(name=quality).delete()
