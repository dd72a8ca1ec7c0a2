"""Moments, durations, numbers and addresses as the admin pages show them."""

from __future__ import annotations

from datetime import datetime

from django import template
from django.urls import reverse

from jobs.admin import base, story
from jobs.models import Attempt

register = template.Library()


@register.filter
def moment(when: datetime | None) -> str:
    return base.moment(when)


@register.filter
def took(attempt: Attempt) -> str:
    return story.took(attempt)


@register.filter
def grouped(number: int) -> str:
    return f"{number:,}"


@register.simple_tag
def job_url(job_id: str, site: str) -> str:
    """Also where there is no request that knows the admin site."""
    return reverse("admin:jobs_job_change", args=[job_id], current_app=site)
