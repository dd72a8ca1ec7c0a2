import os

from django.apps import AppConfig

from tests.jobapp import spans


class RemoteJobsConfig(AppConfig):
    name = "tests.remoteapp"
    label = "tests_remoteapp"

    def ready(self) -> None:
        if spans.VARIABLE in os.environ:
            spans.set_up()
