"""A verb on many jobs: a page says how many and what will happen; then batch after batch, some seconds per request."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from jobs.admin.log import log_rows, log_summary
from jobs.admin.verbs import Order, Verb
from jobs.exceptions import TransitionRefused
from jobs.models import Job
from jobs.priorities import labels, parse_priority

BATCH = 500
SLICE_SECONDS = 5.0
"""A request works so long; then the page shows how far it is and sends the next one."""
REASONS_SHOWN = 3


@dataclass
class Outcome:
    changed: list[str] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    """By job: why not."""

    def add(self, other: Outcome) -> None:
        self.changed += other.changed
        self.refusals |= other.refusals


def act(verb: Verb, ids: list[str], order: Order) -> Outcome:
    """One batch. Where one job refuses, the others are done by themselves, and it says why."""
    try:
        return Outcome(verb.do(ids, order))
    except TransitionRefused as refusal:
        if len(ids) == 1:
            return Outcome(refusals={ids[0]: str(refusal)})
    outcome = Outcome()
    for job_id in ids:
        outcome.add(act(verb, [job_id], order))
    # One that was refused may have changed with a later one: what a job's retry revives, for instance.
    still = set(_concerned(verb, Job.objects.filter(pk__among=frozenset(outcome.refusals))))
    outcome.refusals = {job_id: why for job_id, why in outcome.refusals.items() if job_id in still}
    return outcome


def _concerned(verb: Verb, jobs: Any) -> list[str]:
    return list(jobs.filter(verb.condition).order_by("pk").values_list("pk", flat=True))


def run_action(admin: Any, verb: Verb, request: HttpRequest, jobs: Any) -> HttpResponse | None:
    """What the list's action does: asks first, then works. None: done, back to the list."""
    across = request.POST.get("select_across") == "1"
    jobs = jobs.filter(verb.condition)
    if "confirmed" not in request.POST:
        return _ask(admin, verb, request, jobs, across=across)
    try:
        order = read_order(verb, request)
    except ValueError as problem:
        admin.message_user(request, str(problem), messages.ERROR, extra_tags="job_bad_priority")
        return _ask(admin, verb, request, jobs, across=across)
    until = request.POST.get("until", "")
    jobs = jobs.filter(pk__lte=until) if until else jobs
    names = None if across else {job.pk: str(job) for job in jobs.only("id", "type")}
    outcome, last = Outcome(), request.POST.get("after", "")
    deadline = time.monotonic() + SLICE_SECONDS
    finished = True
    for batch in _batches(jobs, last):
        outcome.add(act(verb, batch, order))
        last = batch[-1]
        if time.monotonic() > deadline:
            finished = not jobs.filter(pk__gt=last).exists()
            break
    done = _number(request.POST.get("done")) + len(outcome.changed)
    _log(request, verb.past_tense(order), outcome, names)
    _tell_refusals(admin, request, outcome)
    if finished:
        _tell_end(admin, request, verb, verb.past_tense(order), done)
        return None
    total = _number(request.POST.get("total"))
    context = {
        "done": done,
        "after": last,
        "until": until,
        "total": total,
        "percent": min(100, round(100 * done / total)) if total else None,
        "order": order,
    }
    return _page(admin, request, "admin/jobs/job/action_progress.html", verb, across=across, **context)


def read_order(verb: Verb, request: HttpRequest) -> Order:
    actor = request.user.get_username()
    if not verb.asks_priority:
        return Order(actor)
    return Order(actor, parse_priority(request.POST.get("priority", "")))


def _batches(jobs: Any, after: str) -> Iterator[list[str]]:
    """By id, each batch read when the one before it is done."""
    ids = jobs.order_by("pk").values_list("pk", flat=True)
    while batch := list((ids.filter(pk__gt=after) if after else ids)[:BATCH]):
        yield batch
        after = batch[-1]


def _ask(admin: Any, verb: Verb, request: HttpRequest, jobs: Any, *, across: bool) -> HttpResponse:
    """The number is exact. The newest job that is counted is the last that will be touched."""
    count = jobs.count()
    selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
    context: dict[str, Any] = {
        "count": count,
        "left_alone": None if across else len(selected) - count,
        "priorities": list(labels()),
        "until": (jobs.order_by("-pk").values_list("pk", flat=True).first() or "") if count else "",
        "sample": list(jobs.order_by("-pk").only("id", "type", "status")[:10]) if count else [],
    }
    return _page(admin, request, "admin/jobs/job/confirm_action.html", verb, across=across, **context)


def _page(
    admin: Any, request: HttpRequest, template: str, verb: Verb, *, across: bool, **context: Any
) -> HttpResponse:
    selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
    request.current_app = admin.admin_site.name
    return TemplateResponse(
        request,
        template,
        {
            **admin.admin_site.each_context(request),
            "title": f"{verb.label} jobs",
            "opts": admin.opts,
            "media": admin.media,
            "verb": verb,
            "across": across,
            # With everything that matches, the ticked rows say nothing; Django wants to see one.
            "selected": selected[:1] if across else selected,
            "checkbox_name": ACTION_CHECKBOX_NAME,
            **context,
        },
    )


def _log(request: HttpRequest, done: str, outcome: Outcome, names: dict[str, str] | None) -> None:
    """With names: those of the jobs that were ticked. Without: it was everything that matches."""
    if not outcome.changed:
        return
    if names is None:
        query = request.META.get("QUERY_STRING", "")[:500]
        log_summary(
            request, Job, f"{len(outcome.changed):,} jobs", f"{done}, all that match {query or 'any'}"
        )
    else:
        log_rows(request, Job, outcome.changed, done, names)


def _tell_refusals(admin: Any, request: HttpRequest, outcome: Outcome) -> None:
    reasons = list(outcome.refusals.values())
    for reason in reasons[:REASONS_SHOWN]:
        admin.message_user(request, reason, messages.ERROR, extra_tags="job_refused")
    if len(reasons) > REASONS_SHOWN:
        said = f"{len(reasons) - REASONS_SHOWN:,} more refused."
        admin.message_user(request, said, messages.ERROR, extra_tags="job_more_refused")


def _tell_end(admin: Any, request: HttpRequest, verb: Verb, done: str, count: int) -> None:
    if count:
        said, level = f"{count:,} {'job' if count == 1 else 'jobs'} {done}.", messages.SUCCESS
    else:
        said, level = f"No job was {done}.", messages.WARNING
    admin.message_user(request, said, level, extra_tags=f"job_{verb.name}")


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 12 else 0
