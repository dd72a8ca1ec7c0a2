"""Job types of the tests; importable by worker processes."""

from jobs import JobContext, job_type


@job_type("tests.noop")
def noop(job: JobContext) -> None:
    """Do nothing."""
