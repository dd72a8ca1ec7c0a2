"""The queue's own job type: it delivers alerts."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from jobs import conf, database
from jobs.alerts.bodies import choose_style, make_body
from jobs.alerts.delivery import DeliveryFailed, DeliveryRefused, post
from jobs.alerts.sending import note_undelivered
from jobs.alerts.signing import HEADER, sign
from jobs.alerts.wording import ABOUT_ALERTS, Alert, Kind
from jobs.exceptions import RetryLater
from jobs.registry import job_type
from jobs.remote_work import DoneAtSite
from jobs.worker.context import JobContext

log = logging.getLogger("jobs.alerts")

LONGEST_WAIT = timedelta(minutes=10)
"""An endpoint may ask for patience; an alert of yesterday is of no use."""


@job_type(ABOUT_ALERTS, concurrency=2, max_attempts=5, timeout=timedelta(minutes=2), remote=DoneAtSite())
def deliver_alert(
    job: JobContext, kind: str, facts: dict[str, Any], at: str, held_back: int = 0
) -> dict[str, Any]:
    """Post an alert to JOBS["ALERT_WEBHOOK_URL"]. One that cannot be delivered is given up: a dead endpoint must not
    fill the list of failed jobs."""
    settings = conf.current()
    if not settings.alert_webhook_url:
        return {"delivered": False, "code": "alerts_off", "reason": "alerts are off"}
    alert = Alert(Kind(kind), facts, at, job.id, held_back)
    body = make_body(alert, choose_style(settings.alert_format, settings.alert_webhook_url))
    headers = {"Content-Type": "application/json; charset=utf-8", "X-Sprocket-Delivery": job.id}
    if settings.alert_webhook_secret:
        now = int(database.read_clock().timestamp())
        headers[HEADER] = sign(body, secret=settings.alert_webhook_secret, at=now)
    try:
        status = post(
            settings.alert_webhook_url,
            body,
            headers=headers,
            timeout=settings.alert_timeout,
            allow_private=settings.alert_allow_private,
        )
    except DeliveryFailed as trouble:
        return _give_up_or_try_again(job, kind, trouble)
    return {"delivered": True, "status": status}


def _give_up_or_try_again(job: JobContext, kind: str, trouble: DeliveryFailed) -> dict[str, Any]:
    if isinstance(trouble, DeliveryRefused) or job.attempt >= job.max_attempts:
        log.error("alert %s was not delivered: %s", kind, trouble, extra={"code": "alert_undelivered"})
        note_undelivered(kind)
        return {"delivered": False, "code": trouble.code, "reason": str(trouble)}
    if trouble.retry_after is not None:
        raise RetryLater(min(LONGEST_WAIT, timedelta(seconds=trouble.retry_after)), str(trouble)) from None
    raise trouble from None
