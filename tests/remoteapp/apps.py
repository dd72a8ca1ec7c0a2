from django.apps import AppConfig


class RemoteJobsConfig(AppConfig):
    name = "tests.remoteapp"
    label = "tests_remoteapp"
