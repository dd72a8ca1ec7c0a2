from django.apps import AppConfig


class TestJobsConfig(AppConfig):
    name = "tests.jobapp"
    label = "tests_jobapp"
