"""The project with the job types of the showcase."""

import os

os.environ.setdefault("SECRET_KEY", "used for the pictures only")

from project.settings import *  # noqa: F403
from project.settings import INSTALLED_APPS as OF_THE_PROJECT

INSTALLED_APPS = [*OF_THE_PROJECT, "tests.support.browser.showcase"]
