"""Two job types to try the queue with: one that takes a while, one that fails at first."""

import time

from jobs import JobContext, job_type


@job_type("demo.count", remote=True)
def count(job: JobContext, to: int = 20, pause: float = 0.5) -> None:
    """Count to a number, and say how far it is."""
    for number in range(1, to + 1):
        job.raise_if_stopped()
        time.sleep(pause)
        job.progress(100 * number / to, step=f"{number} of {to}")


@job_type("demo.flaky")
def flaky(job: JobContext) -> None:
    """Fail the first attempt, succeed on the second."""
    if job.attempt == 1:
        raise RuntimeError("the first attempt fails, to show a retry")
