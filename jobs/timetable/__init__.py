"""Periodic jobs: a cron expression in a time zone, and at each of its ticks one job, however many workers run.

    periodic("shop.close_day", cron="0 3 * * *", tz="Europe/Berlin")      in a job_types.py; or a schedule in the admin

`expressions` tells the ticks, `policy` which of those that were missed are made up for, `declarations` keeps what the
code declares; `schedules` keeps all of it in the database and fires.
"""
