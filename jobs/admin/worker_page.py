"""The page of one worker: what it runs and has run, its keys, and what can be done about it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Max
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse

from jobs import database, fleet, live, worker_keys
from jobs.admin.base import moment
from jobs.admin.log import log_rows
from jobs.models import Attempt, Job, Worker, WorkerKey, WorkerKind
from jobs.processes import Host
from jobs.worker.over_http.address import is_plain_http

HISTORY_SHOWN = 30
HISTORY_WINDOW = 20_000
"""Among so many of the newest attempts of the whole fleet."""
LIFETIMES = {"": None, "30": timedelta(days=30), "90": timedelta(days=90), "365": timedelta(days=365)}


@dataclass(frozen=True)
class WorkerVerb:
    name: str
    label: str
    done: str
    consequence: str
    do: Callable[[list[str]], list[str]]
    is_possible: Callable[[Worker], bool]
    is_dangerous: bool = False
    permission: str = "change"

    def is_permitted(self, user: Any) -> bool:
        return bool(user.has_perm(f"jobs.{self.permission}_worker"))


WORKER_VERBS = {
    verb.name: verb
    for verb in (
        WorkerVerb(
            "enable",
            "Enable",
            "enabled",
            "It may claim jobs again.",
            fleet.enable,
            lambda worker: worker.disabled,
        ),
        WorkerVerb(
            "disable",
            "Disable",
            "disabled",
            "It finishes what it runs and claims nothing until somebody enables it.",
            fleet.disable,
            lambda worker: not worker.disabled,
            is_dangerous=True,
        ),
        WorkerVerb(
            "drain",
            "Drain",
            "asked to drain",
            "It finishes what it runs and then stops.",
            fleet.drain,
            lambda worker: not worker.draining and worker.is_online,
            is_dangerous=True,
        ),
        WorkerVerb(
            "forget",
            "Forget",
            "forgotten",
            "Its record and its keys are deleted; what it did stays in the history of the jobs.",
            fleet.forget,
            lambda worker: not worker.is_online and not worker.running_jobs.all(),
            is_dangerous=True,
            permission="delete",
        ),
    )
}


def address_of(admin: Any, worker_id: str) -> str:
    return reverse("admin:jobs_worker_change", args=[worker_id], current_app=admin.admin_site.name)


def check_view(admin: Any, request: HttpRequest) -> None:
    if not admin.has_view_or_change_permission(request):
        raise PermissionDenied


def _visible(admin: Any, request: HttpRequest, worker_id: str) -> Worker:
    check_view(admin, request)
    worker: Worker | None = None
    if "\0" not in worker_id:
        worker = Worker.objects.judged().filter(pk=worker_id).first()
    if worker is None:
        raise Http404("There is no such worker.")
    return worker


def machine_of(worker: Worker) -> str:
    name = Host.parse(worker.host).name
    if worker.kind == WorkerKind.REMOTE:
        return "remote"
    return f"{name}, process {worker.pid}" if name and worker.pid else name


# -- the page ----------------------------------------------------------------------------------------------------------


def show(admin: Any, request: HttpRequest, worker_id: str, *, new_key: str = "") -> HttpResponse:
    worker = _visible(admin, request, worker_id)
    if request.method not in ("GET", "HEAD") and not new_key:
        return HttpResponseNotAllowed(["GET", "HEAD"])
    may_issue, may_revoke = (request.user.has_perm(f"jobs.{verb}_workerkey") for verb in ("add", "change"))
    sees_keys = may_issue or may_revoke or request.user.has_perm("jobs.view_workerkey")
    keys = list(worker.keys.all()[:100]) if sees_keys else []
    context = {
        **admin.admin_site.each_context(request),
        "title": worker.name,
        "opts": admin.opts,
        "media": admin.media,
        "worker": worker,
        "site": admin.admin_site.name,
        "machine": machine_of(worker),
        "values": {key.rpartition(".")[2]: value for key, value in worker_values(worker).items()},
        "heartbeat": moment(worker.last_heartbeat, otherwise="never", live=f"worker.{worker.pk}.heartbeat"),
        "verbs": [
            {
                "verb": verb,
                "possible": verb.is_possible(worker),
                "live": f"worker.{worker.pk}.can_{verb.name}",
            }
            for verb in WORKER_VERBS.values()
            if verb.is_permitted(request.user)
        ],
        "running": _running(worker),
        "history": _history(worker),
        "shows_keys": sees_keys and (worker.kind == WorkerKind.REMOTE or bool(keys)),
        "may_issue": may_issue and worker.kind == WorkerKind.REMOTE,
        "may_revoke": may_revoke,
        "keys": keys,
        "newest_key": keys[0].pk if keys else 0,
        "now": database.read_clock(),
        "new_key": new_key,
        "command": command_for(request, new_key) if new_key else "",
        "lifetimes": LIFETIMES,
    }
    request.current_app = admin.admin_site.name
    response = TemplateResponse(request, "admin/jobs/worker/detail.html", context)
    if new_key:
        response["Cache-Control"] = "no-store"
    return response


def _running(worker: Worker) -> list[Job]:
    return list(
        Job.objects.leased().filter(worker=worker).order_by("claimed_at").defer("payload", "result")[:200]
    )


def _history(worker: Worker) -> list[Attempt]:
    """Its newest attempts. The table has no index by worker, so old ones of an idle worker are not looked for."""
    newest = Attempt.objects.aggregate(Max("pk"))["pk__max"] or 0
    attempts = Attempt.objects.filter(worker_id=worker.pk, pk__gt=newest - HISTORY_WINDOW)
    return list(
        attempts.select_related("job")
        .only("job__type", "number", "outcome", "started_at", "finished_at", "error_type", "error")
        .order_by("-pk")[:HISTORY_SHOWN]
    )


def worker_values(worker: Worker) -> dict[str, Any]:
    prefix = f"worker.{worker.pk}"
    return {
        f"{prefix}.status": worker.state,
        f"{prefix}.draining": worker.draining,
        f"{prefix}.heartbeat": worker.last_heartbeat,
        **{f"{prefix}.can_{verb.name}": verb.is_possible(worker) for verb in WORKER_VERBS.values()},
    }


def read_worker(worker_id: str, site: str) -> live.State:
    worker = Worker.objects.judged().filter(pk=worker_id).first()
    if worker is None:
        return {}
    context = {"site": site, "running": _running(worker), "history": _history(worker)}
    return {
        **worker_values(worker),
        f"worker.{worker.pk}.running_table": render_to_string(
            "admin/jobs/worker/running_table.html", context
        ),
        f"worker.{worker.pk}.history": render_to_string("admin/jobs/worker/history.html", context),
    }


def live_view(admin: Any, request: HttpRequest, worker_id: str) -> HttpResponseBase:
    worker = _visible(admin, request, worker_id)
    site = admin.admin_site.name
    return live.stream(
        request, [live.Topic(f"worker:{site}:{worker.pk}", partial(read_worker, worker.pk, site))]
    )


# -- what people do ----------------------------------------------------------------------------------------------------


def act(admin: Any, request: HttpRequest, worker_id: str) -> HttpResponse:
    worker = _visible(admin, request, worker_id)
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    verb = WORKER_VERBS.get(request.POST.get("verb", ""))
    if not (verb.is_permitted(request.user) if verb else admin.has_change_permission(request)):
        raise PermissionDenied
    if verb is None:
        return HttpResponse("No such verb.", status=400, content_type="text/plain")
    if verb.is_possible(worker) and verb.do([worker.pk]):
        log_rows(request, Worker, [worker.pk], verb.done, {worker.pk: worker.name})
        live.hint_on_commit()
        said, level = f"The worker {worker.name} was {verb.done}. {verb.consequence}", messages.SUCCESS
    else:
        said = f"Nothing was done: {worker.name} is {worker.order or worker.state}."
        level = messages.WARNING
    admin.message_user(request, said, level, extra_tags=f"worker_{verb.name}")
    if not Worker.objects.filter(pk=worker.pk).exists():
        return redirect(reverse("admin:jobs_worker_changelist", current_app=admin.admin_site.name))
    return redirect(address_of(admin, worker.pk))


def issue_key(admin: Any, request: HttpRequest, worker_id: str) -> HttpResponse:
    """The key is in this answer and nowhere else."""
    worker = _visible(admin, request, worker_id)
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    if not request.user.has_perm("jobs.add_workerkey"):
        raise PermissionDenied
    lifetime = request.POST.get("lifetime", "")
    if lifetime not in LIFETIMES or worker.kind != WorkerKind.REMOTE:
        return HttpResponse("No key can be issued like that.", status=400, content_type="text/plain")
    issued = _issue_once(worker, request, lifetime)
    if issued is None:
        admin.message_user(
            request,
            "No further key was issued: this form has been sent before. If you did not see its key, revoke it.",
            messages.WARNING,
            extra_tags="key_issue",
        )
        return redirect(address_of(admin, worker.pk))
    record, key = issued
    log_rows(request, Worker, [worker.pk], f"issued key {record}", {worker.pk: worker.name})
    said = f"The key {record} of {worker.name} was issued."
    admin.message_user(request, said, messages.SUCCESS, extra_tags="key_issue")
    return show(admin, request, worker.pk, new_key=key)


def _issue_once(worker: Worker, request: HttpRequest, lifetime: str) -> tuple[WorkerKey, str] | None:
    """None: the form that was sent has been used, perhaps at this very moment."""
    with database.atomic():
        Worker.objects.select_for_update().get(pk=worker.pk)
        newest = worker.keys.aggregate(Max("pk"))["pk__max"] or 0
        if request.POST.get("newest_key") != str(newest):
            return None
        return worker_keys.issue(worker, actor=request.user.get_username(), lifetime=LIFETIMES[lifetime])


def revoke_key(admin: Any, request: HttpRequest, worker_id: str) -> HttpResponse:
    worker = _visible(admin, request, worker_id)
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    if not request.user.has_perm("jobs.change_workerkey"):
        raise PermissionDenied
    wanted = request.POST.get("key", "")
    record = worker.keys.filter(pk=int(wanted)).first() if wanted.isdecimal() and len(wanted) < 18 else None
    if record is None:
        raise Http404("This worker has no such key.")
    if worker_keys.revoke([record.pk], actor=request.user.get_username()):
        log_rows(request, Worker, [worker.pk], f"revoked key {record}", {worker.pk: worker.name})
        live.hint_on_commit()
        said, level = f"The key {record} opens nothing any more.", messages.SUCCESS
    else:
        said, level = f"The key {record} was revoked already.", messages.WARNING
    admin.message_user(request, said, level, extra_tags="key_revoke")
    return redirect(address_of(admin, worker.pk))


def command_for(request: HttpRequest, key: str) -> str:
    """By the environment, since command lines can be read by others on that machine."""
    try:
        server = request.build_absolute_uri(reverse("jobs_api:openapi")).removesuffix("/openapi.json")
    except NoReverseMatch:
        server = "URL-OF-THE-API"  # the site has not mounted jobs.api.urls yet
    command = f"SPROCKET_KEY={shlex.quote(key)} sprocket-worker --server {shlex.quote(server)}"
    return f"{command} --allow-http" if is_plain_http(server) else command
