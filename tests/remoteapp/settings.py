"""The settings of the tests, with the types that remote workers may run."""

from tests.settings import *

INSTALLED_APPS = [*INSTALLED_APPS, "tests.remoteapp"]
