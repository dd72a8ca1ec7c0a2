"""Every status change of a job, in the order of its life. Nothing else writes Job.status.

enqueue → claim → renew · report_progress → complete · fail · release
                                             cancel · retry · discard · settle_failures (people)
                                             recover · reconcile     (the queue itself)
"""

from jobs.lifecycle.claiming import claim
from jobs.lifecycle.enqueueing import enqueue, enqueue_many
from jobs.lifecycle.finishing import complete, complete_many, fail, release
from jobs.lifecycle.intervening import cancel, change_priority, discard, retry, run_now, settle_failures
from jobs.lifecycle.leases import ClaimedJob, FailureReport, Lease
from jobs.lifecycle.recovering import recover_expired, recover_lost
from jobs.lifecycle.running import ProgressReport, cancelled_among, live_leases, renew, report_progress

__all__ = [
    "ClaimedJob",
    "FailureReport",
    "Lease",
    "ProgressReport",
    "cancel",
    "cancelled_among",
    "change_priority",
    "claim",
    "complete",
    "complete_many",
    "discard",
    "enqueue",
    "enqueue_many",
    "fail",
    "live_leases",
    "recover_expired",
    "recover_lost",
    "release",
    "renew",
    "report_progress",
    "retry",
    "run_now",
    "settle_failures",
]
