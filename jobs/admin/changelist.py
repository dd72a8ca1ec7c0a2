"""The list of jobs, within its window."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.db.models import CharField, TextField
from django.db.models.functions import Cast, Left
from django.http import HttpRequest

from jobs.admin.filters import OLDER_THAN, chosen_in, made_at
from jobs.admin.search import Found, find
from jobs.admin.window import Window, find_window

PREVIEW = 160


class JobChangeList(ChangeList):
    """`get_queryset` gives everything that matches, for actions; the pages show what of it lies in the window."""

    window: Window
    found: Found | None = None

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        jobs = super().get_queryset(request, exclude_parameters)
        if self.query:
            self.found = find(self.query, chosen_in(request.GET))
            jobs = self.found.applied_to(jobs)
        return jobs

    def get_results(self, request: HttpRequest) -> None:
        if self.found is None:
            self.window = find_window(chosen_in(request.GET))
            self.queryset = self.window.applied_to(self.queryset)
        else:
            self.window = self.found.window
        text = Cast("payload", TextField())
        preview = Left(text, PREVIEW, output_field=CharField())
        self.queryset = self.queryset.defer("payload", "result").annotate(preview=preview)
        super().get_results(request)
        self.result_list = list(self.result_list)
        self.params.pop(OLDER_THAN, None)  # another search starts with the newest jobs

    @property
    def is_text_search(self) -> bool:
        return self.found is not None and not self.found.is_exact

    @property
    def window_reaches_back_to(self) -> str:
        return made_at(self.window.floor)

    @property
    def older_query(self) -> str:
        return self.get_query_string({OLDER_THAN: self.window.floor})
