"""The page of one job: what it is, what has happened to it, its workflow, and what can be done now."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import reverse

from jobs import live
from jobs.admin import bulk, links, workflow_picture
from jobs.admin.log import log_rows
from jobs.admin.story import explain, tell
from jobs.admin.verbs import BY_NAME, VERBS
from jobs.live.job_topics import job_values, topics_of
from jobs.live.offers import BadTopic
from jobs.models import Job, Status
from jobs.priorities import labels, priority_label

_SHOWN = 50
_LONGEST_JSON = 100_000


def address_of(admin: Any, job_id: str) -> str:
    return reverse("admin:jobs_job_change", args=[job_id], current_app=admin.admin_site.name)


def show(admin: Any, request: HttpRequest, job_id: str) -> HttpResponse:
    job = _visible(admin, request, job_id)
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    site = admin.admin_site.name
    context = {
        **admin.admin_site.each_context(request),
        **_page_context(job, site),
        "title": job.type,
        "subtitle": job.pk,
        "opts": admin.opts,
        "media": admin.media,
        "original": job,
        "payload": pretty(job.payload),
        "result": pretty(job.result) if job.result is not None else "",
        "verbs": _buttons(admin, request, job),
        "priority": priority_label(job.priority),
        "priorities": labels(),
        "seen": seen(job),
        "children": _related(Job.objects.filter(parent=job).order_by("pk")),
        "links": links.links_of(job),
    }
    request.current_app = site
    return TemplateResponse(request, "admin/jobs/job/detail.html", context)


def _visible(admin: Any, request: HttpRequest, job_id: str) -> Job:
    if not admin.has_view_or_change_permission(request):
        raise PermissionDenied
    job = None
    if "\0" not in job_id:
        job = Job.objects.select_related("workflow").filter(pk=job_id).first()
    if job is None:
        raise Http404(f"There is no job {job_id}. It may have been discarded or pruned.")
    return job


def pretty(value: Any) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if len(text) > _LONGEST_JSON:
        return f"{text[:_LONGEST_JSON]}\n… {len(text) - _LONGEST_JSON:,} more characters"
    return text


def seen(job: Job) -> str:
    """What the buttons of a page are about: the job as the page shows it. A second click finds another one."""
    return f"{job.status}.{job.lease_token}.{job.priority}.{int(job.blocked)}"


def _buttons(admin: Any, request: HttpRequest, job: Job) -> list[dict[str, Any]]:
    """Those that the user may press; the page shows the ones that are possible at the moment."""
    return [
        {"verb": verb, "possible": verb.is_possible(job), "live": f"job.{job.pk}.can_{verb.name}"}
        for verb in VERBS
        if _may(admin, request, verb.permission)
    ]


def _may(admin: Any, request: HttpRequest, permission: str) -> bool:
    return bool(getattr(admin, f"has_{permission}_permission")(request))


def _related(jobs: Any) -> dict[str, Any]:
    rows = list(jobs.only("id", "type", "status", "progress_percent")[: _SHOWN + 1])
    return {"rows": rows[:_SHOWN], "more": len(rows) > _SHOWN}


# -- what moves by itself ----------------------------------------------------------------------------------------------


def _page_context(job: Job, site: str) -> dict[str, Any]:
    """Also read without a request, for the live stream."""
    values = {key.rpartition(".")[2]: value for key, value in job_values(job).items()}
    return {
        "job": job,
        "site": site,
        "values": values,
        "is_running": job.status == Status.PROCESSING,
        "explanation": explain(job),
        "story": tell(job),
        "picture": workflow_picture.context(job, site),
    }


def live_topics(job: Job, site: str) -> list[live.Topic]:
    page = live.Topic(f"job-page:{site}:{job.pk}", partial(_read_page, job.pk, site))
    return [page, live.Topic(f"job-picture:{site}:{job.pk}", partial(_read_picture, job.pk, site), every=2.0)]


def _read_page(job_id: str, site: str) -> live.State:
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        return {}
    prefix = f"job.{job.pk}"
    context = {"job": job, "site": site, "story": tell(job), "explanation": explain(job)}
    return {
        **job_values(job),
        **{f"{prefix}.can_{verb.name}": verb.is_possible(job) for verb in VERBS},
        f"{prefix}.seen": seen(job),
        f"{prefix}.priority": priority_label(job.priority),
        f"{prefix}.result": pretty(job.result) if job.result is not None else "",
        f"{prefix}.explanation": render_to_string("admin/jobs/job/explanation.html", context),
        f"{prefix}.attempts_table": render_to_string("admin/jobs/job/attempts.html", context),
        f"{prefix}.timeline": render_to_string("admin/jobs/job/timeline.html", context),
    }


def _read_picture(job_id: str, site: str) -> live.State:
    job = Job.objects.select_related("workflow").filter(pk=job_id).first()
    if job is None:
        return {}
    context = {"job": job, "picture": workflow_picture.context(job, site)}
    return {f"job.{job.pk}.picture": render_to_string("admin/jobs/job/picture.html", context)}


def live_view(admin: Any, request: HttpRequest, job_id: str) -> HttpResponseBase:
    job = _visible(admin, request, job_id)
    return live.stream(request, live_topics(job, admin.admin_site.name))


def list_live_view(admin: Any, request: HttpRequest) -> HttpResponseBase:
    if not admin.has_view_or_change_permission(request):
        raise PermissionDenied
    try:
        return live.stream(request, topics_of(request.GET))
    except BadTopic as problem:
        return HttpResponse(str(problem), status=400, content_type="text/plain")


# -- what people do ----------------------------------------------------------------------------------------------------


def act_view(admin: Any, request: HttpRequest, job_id: str) -> HttpResponse:
    """One verb on this job. What the button was about must still be so: a second click does nothing."""
    job = _visible(admin, request, job_id)
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    verb = BY_NAME.get(request.POST.get("verb", ""))
    if verb is None:
        return HttpResponse("No such verb.", status=400, content_type="text/plain")
    if not _may(admin, request, verb.permission):
        raise PermissionDenied
    back = address_of(admin, job.pk)
    if request.POST.get("seen") != seen(job) or not verb.is_possible(job):
        said = f"Nothing was done: the job is {job.status} by now."
        admin.message_user(request, said, messages.WARNING, extra_tags="job_stale")
        return redirect(back)
    try:
        order = bulk.read_order(verb, request)
    except ValueError as problem:
        admin.message_user(request, str(problem), messages.ERROR, extra_tags="job_bad_priority")
        return redirect(back)
    outcome = bulk.act(verb, [job.pk], order)
    done = verb.past_tense(order)
    log_rows(request, Job, outcome.changed, done, {job.pk: str(job)})
    for reason in outcome.refusals.values():
        admin.message_user(request, reason, messages.ERROR, extra_tags="job_refused")
    code = f"job_{verb.name}"
    if outcome.changed:
        said = _what_was_done(job, done, len(outcome.changed) - 1)
        admin.message_user(request, said, messages.SUCCESS, extra_tags=code)
    elif not outcome.refusals:
        said = f"Nothing was done: the job could not be {done}."
        admin.message_user(request, said, messages.WARNING, extra_tags=code)
    if not Job.objects.filter(pk=job.pk).exists():
        return redirect(reverse("admin:jobs_job_changelist", current_app=admin.admin_site.name))
    return redirect(back)


def _what_was_done(job: Job, done: str, others: int) -> str:
    also = f", and {others:,} more that depended on it" if others else ""
    return f"The job {job} was {done}{also}."
