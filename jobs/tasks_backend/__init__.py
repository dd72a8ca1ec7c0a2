"""A backend for Django's tasks: any `@task` function runs on this queue.

TASKS = {"default": {"BACKEND": "jobs.tasks_backend.SprocketBackend"}}
"""

from jobs.tasks_backend.backend import SprocketBackend
from jobs.tasks_backend.declaring import SprocketTask, SprocketTaskContext

__all__ = ["SprocketBackend", "SprocketTask", "SprocketTaskContext"]
