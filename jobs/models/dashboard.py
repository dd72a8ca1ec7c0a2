"""The dashboard as a model, so that every admin site gives it an address, a permission and a place in its menu."""

from __future__ import annotations

from jobs.models.job import Job


class Dashboard(Job):
    """No rows of its own: the page is `jobs/admin/dashboard.py`."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = "dashboard"
        verbose_name_plural = "dashboard"
