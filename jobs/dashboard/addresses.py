"""Links into the admin site on which the dashboard is shown; empty where that site has no such page."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import NoReverseMatch, reverse


@dataclass(frozen=True)
class Addresses:
    site: str
    """The admin site's name."""

    def jobs(self, **query: str) -> str:
        found = self._find("jobs_job_changelist")
        return f"{found}?{urlencode(query)}" if found and query else found

    def job(self, job_id: str) -> str:
        return self._find("jobs_job_change", job_id)

    def worker(self, worker_id: str) -> str:
        return self._find("jobs_worker_change", worker_id)

    def workers(self) -> str:
        return self._find("jobs_worker_changelist")

    def type(self, name: str) -> str:
        return self._find("jobs_jobtypestate_change", name)

    def breakers(self) -> str:
        return self._find("jobs_breaker_changelist")

    def dashboard(self) -> str:
        return self._find("jobs_dashboard_changelist")

    def live(self) -> str:
        return self._find("jobs_dashboard_live")

    def control(self) -> str:
        return self._find("jobs_dashboard_control")

    def _find(self, name: str, *args: str) -> str:
        try:
            return reverse(f"admin:{name}", args=args, current_app=self.site)
        except NoReverseMatch:
            return ""
