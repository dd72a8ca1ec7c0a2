"""The picture of a job's workflow, or of its next relatives if it has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q
from django.urls import reverse

from jobs.admin import picture
from jobs.models import Job, Prerequisite, Status

MOST_JOBS = 2_000
MOST_EDGES = 20_000
_LABEL = 20
_ORDER = ("completed", "processing", "pending", "waiting", "failed", "cancelled")


@dataclass(frozen=True)
class Part:
    """A stretch of a group's bar."""

    status: str
    x: float
    width: float


def context(job: Job, site: str) -> dict[str, Any] | None:
    """What the template draws; None: the job stands alone."""
    nodes, edges = _load(job)
    if len(nodes) < 2:
        return None
    drawn = picture.draw(nodes, edges)
    done = sum(node.status == Status.COMPLETED for node in nodes)
    name = job.workflow.name if job.workflow else "Relatives"
    return {
        "name": name,
        "summary": f"{done:,} of {len(nodes):,} completed",
        "is_cut": len(nodes) >= MOST_JOBS,
        "width": drawn.width,
        "height": drawn.height,
        "box_width": picture.WIDTH,
        "box_height": picture.HEIGHT,
        "lines": drawn.lines,
        "boxes": [_box(box, job, site, _shared_prefix(drawn.boxes)) for box in drawn.boxes],
    }


def _shared_prefix(boxes: Sequence[picture.Box]) -> str:
    """ "videos." where every type begins like that, and has something behind it."""
    prefixes = {box.type.partition(".")[0] + "." for box in boxes}
    (prefix, *others) = prefixes
    return "" if others or any(len(box.type) <= len(prefix) for box in boxes) else prefix


def _box(box: picture.Box, job: Job, site: str, prefix: str) -> dict[str, Any]:
    name = box.type.removeprefix(prefix)
    counts = box.counts
    said = ", ".join(f"{counts[status]:,} {status}" for status in _ORDER if counts[status])
    inside = f"{box.percent:.0f} %" if box.status == Status.PROCESSING else ""
    return {
        "key": box.key,
        "x": box.x,
        "y": box.y,
        "status": box.status,
        "label": name if len(name) <= _LABEL else f"…{name[1 - _LABEL :]}",
        "said": _in_short(box) if box.is_group else " ".join(filter(None, [box.status, inside])),
        "title": f"{box.type}: {said if box.is_group else box.status}",
        "count": len(box.nodes) if box.is_group else 0,
        "is_here": any(node.id == job.pk for node in box.nodes),
        "parts": _parts(box),
        "address": _address(box, job, site),
    }


def _in_short(box: picture.Box) -> str:
    counts = box.counts
    trouble = ", ".join(
        f"{counts[status]:,} {status}" for status in ("failed", "cancelled") if counts[status]
    )
    return trouble or f"{counts['completed']:,} of {len(box.nodes):,} completed"


def _parts(box: picture.Box) -> list[Part]:
    """How a group stands, as a bar; of a running job, how far it is."""
    inner = picture.WIDTH - 20
    if not box.is_group:
        return [Part("processing", 10, inner * box.percent / 100)] if box.status == "processing" else []
    parts, x = [], 10.0
    for status in _ORDER:
        width = inner * box.counts[status] / len(box.nodes)
        if width:
            parts.append(Part(status, x, width))
            x += width
    return parts


def _address(box: picture.Box, job: Job, site: str) -> str:
    if not box.is_group:
        return reverse("admin:jobs_job_change", args=[box.key], current_app=site)
    of = {"workflow": job.workflow_id} if job.workflow_id else {"q": job.parent_id or job.pk}
    return f"{reverse('admin:jobs_job_changelist', current_app=site)}?{urlencode({**of, 'type': box.type})}"


def _load(job: Job) -> tuple[list[picture.Node], list[picture.Edge]]:
    if job.workflow_id:
        jobs = Job.objects.filter(workflow=job.workflow_id)
    else:
        jobs = Job.objects.filter(pk__among=frozenset(_relatives(job)))
    rows = list(
        jobs.order_by("pk").values_list("id", "type", "status", "progress_percent", "parent_id")[:MOST_JOBS]
    )
    nodes = [picture.Node(id, kind, status, percent) for id, kind, status, percent, _ in rows]
    edges = [picture.Edge(parent, id, "child") for id, _, _, _, parent in rows if parent]
    if len(nodes) > 1:
        needs = Prerequisite.objects.filter(job__pk__among=frozenset(node.id for node in nodes))
        edges += [
            picture.Edge(source, target, "optional" if optional else "needs")
            for source, target, optional in needs.values_list("needs_id", "job_id", "optional")[:MOST_EDGES]
        ]
    return nodes, edges


def _relatives(job: Job) -> set[str]:
    """Itself, its parent, its children, and what it needs or is needed by."""
    found = {job.pk} | ({job.parent_id} if job.parent_id else set())
    found |= set(Job.objects.filter(parent=job).order_by("pk").values_list("pk", flat=True)[:MOST_JOBS])
    edges = (
        Prerequisite.objects.filter(Q(job=job) | Q(needs=job)) if job.has_dependants else job.prerequisites
    )
    for pair in edges.values_list("job_id", "needs_id")[:MOST_JOBS]:
        found |= set(pair)
    return found
