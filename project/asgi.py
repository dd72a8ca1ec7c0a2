"""The site for ASGI servers; with SERVE_STATIC also its static files, so that a server needs nothing beside it."""

import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured

from project.from_vlog import log_old_names

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")


def with_static_files(site: Any, root: Path) -> Any:
    """The names carry no hash, because scripts import each other by name: browsers ask again after a minute."""
    try:
        from servestatic import ServeStaticASGI
    except ImportError as error:
        raise ImproperlyConfigured("SERVE_STATIC needs what deploy/requirements.txt names.") from error
    if not root.is_dir():
        raise ImproperlyConfigured(
            f"SERVE_STATIC: there is no folder {root}; `manage.py collectstatic` makes it."
        )
    return ServeStaticASGI(
        site,
        root=str(root),
        prefix=settings.STATIC_URL,
        max_age=60,
        allow_all_origins=False,
        add_headers_function=_no_guesses,
    )


def _no_guesses(headers: Any, path: str, url: str) -> None:
    headers["X-Content-Type-Options"] = "nosniff"


application = get_asgi_application()
log_old_names()
if settings.SERVE_STATIC:
    application = with_static_files(application, Path(settings.STATIC_ROOT))

from jobs import watch  # noqa: E402 (the apps must be loaded first)

watch.start()
