"""Somebody's own admin site at an address of its own, with the queue registered on it as with any app."""

from django.contrib import admin
from django.urls import path

from jobs.admin.dashboard import DashboardAdmin
from jobs.admin.job import JobAdmin
from jobs.admin.job_type import JobTypeStateAdmin
from jobs.admin.worker import WorkerAdmin
from jobs.models import Dashboard, Job, JobTypeState, Worker

office = admin.AdminSite(name="office")
office.site_header = "The office"
office.register(Dashboard, DashboardAdmin)
office.register(Job, JobAdmin)
office.register(Worker, WorkerAdmin)
office.register(JobTypeState, JobTypeStateAdmin)

urlpatterns = [path("office/", office.urls)]
