import os

from django.apps import AppConfig

from tests.jobapp import spans


class TestJobsConfig(AppConfig):
    name = "tests.jobapp"
    label = "tests_jobapp"

    def ready(self) -> None:
        if spans.VARIABLE in os.environ:
            spans.set_up()
