"""Somebody's own admin site at an address of its own, with the queue registered on it as with any app."""

from django.contrib import admin
from django.urls import path

from jobs.admin.dashboard import DashboardAdmin
from jobs.models import Dashboard

office = admin.AdminSite(name="office")
office.site_header = "The office"
office.register(Dashboard, DashboardAdmin)

urlpatterns = [path("office/", office.urls)]
