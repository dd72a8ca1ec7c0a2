"""The site for WSGI servers."""

import os

from django.core.wsgi import get_wsgi_application

from project.from_vlog import log_old_names

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

application = get_wsgi_application()
log_old_names()

from jobs import watch  # noqa: E402 (the apps must be loaded first)

watch.start()
