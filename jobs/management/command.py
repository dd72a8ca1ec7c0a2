"""What the commands of both apps have in common."""

from __future__ import annotations

from django.core.management.base import BaseCommand

from jobs.checks import TAG


class QueueCommand(BaseCommand):
    """Checks what queue and pipeline need before it begins, and no more: all checks of a site import its URLs, forms
    and API, and would double what the start of a worker costs. `manage.py check` and the web server run them."""

    requires_system_checks = [TAG]
