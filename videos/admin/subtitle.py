"""Subtitles as texts to read and correct. Files are uploaded on the page of their video."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from videos import subtitling
from videos.exceptions import UploadRefused
from videos.models import Subtitle, SubtitleSource


class SubtitleForm(forms.ModelForm):  # type: ignore[type-arg]
    """What is typed here is an upload like any other: read, made safe, written anew."""

    class Meta:
        model = Subtitle
        fields = ("video", "language", "label", "webvtt")

    def clean_webvtt(self) -> str:
        try:
            return subtitling.rewritten(self.cleaned_data["webvtt"].encode())
        except UploadRefused as refusal:
            raise ValidationError(str(refusal), code=refusal.code) from refusal


@admin.register(Subtitle)
class SubtitleAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    form = SubtitleForm
    list_display = ("video", "language", "source", "stored_at")
    list_filter = ("source", "language")
    list_select_related = ("video",)
    show_full_result_count = False
    search_fields = ("video__title", "=video__slug", "=language")
    raw_id_fields = ("video",)

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).defer("webvtt")

    def save_model(self, request: HttpRequest, obj: Subtitle, form: Any, change: bool) -> None:
        obj.source = SubtitleSource.UPLOADED
        super().save_model(request, obj, form, change)
