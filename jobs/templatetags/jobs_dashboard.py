"""For templates of an admin site: `{% load jobs_dashboard %}{% jobs_summary %}` shows how the queue stands."""

from __future__ import annotations

from typing import Any

from django import template

from jobs.dashboard.addresses import Addresses
from jobs.dashboard.reading import Reading
from jobs.live.views import may_see

register = template.Library()


@register.inclusion_tag("admin/jobs/dashboard/summary.html", takes_context=True)
def jobs_summary(context: Any) -> dict[str, Any]:
    """Nothing for somebody who may not see jobs."""
    request = context.get("request")
    user = getattr(request, "user", None)
    if user is None or not may_see(user, "job"):
        return {"is_visible": False}
    addresses = Addresses(getattr(request, "current_app", None) or "admin")
    return {"is_visible": True, "reading": Reading(addresses), "addresses": addresses}
