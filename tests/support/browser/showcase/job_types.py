"""Jobs that look like work, for as long as a picture takes."""

import time
from datetime import timedelta

from jobs import JobContext, declare_breaker, job_type, periodic

declare_breaker("printer", cooldown=timedelta(hours=1))


@job_type("podcast.import", concurrency=4)
def import_podcast(job: JobContext, show: str, episodes: int = 40, seconds: float = 120) -> dict[str, object]:
    for number in range(1, episodes + 1):
        job.progress(100 * (number - 1) / episodes, step=f"{show}: episode {number} of {episodes}")
        until = time.monotonic() + seconds / episodes
        while time.monotonic() < until:
            job.raise_if_stopped()
            time.sleep(0.05)
    return {"show": show, "episodes": episodes}


@job_type("mail.send", max_attempts=1, breaker="mail")
def send_mail(job: JobContext, to: str) -> None:
    if to.endswith("example.net"):
        raise TimeoutError("mx1.example.net did not answer within 30 s")


@job_type("invoice.print", max_attempts=1, breaker="printer")
def print_invoice(job: JobContext, number: int) -> str:
    if number % 9 == 0:
        raise ValueError(f"invoice {number} has no address")
    return f"invoice-{number}.pdf"


@job_type("report.build", concurrency=2)
def build_report(job: JobContext, month: str) -> None:
    job.progress(50, step=f"adding up {month}")


@job_type("search.reindex")
def reindex(job: JobContext, shelf: str) -> None:
    pass


periodic("search.reindex", shelf="all", cron="0 4 * * *", tz="Europe/Berlin", name="shelves")
