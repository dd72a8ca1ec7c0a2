"""What somebody writes into a schedule, checked before it is stored."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from jobs import payloads, registry
from jobs.exceptions import BadValue, InvalidPayload
from jobs.models import Schedule
from jobs.priorities import labels, parse_priority
from jobs.timetable.declarations import all_declared
from jobs.timetable.expressions import BadExpression, Expression


class ScheduleForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Schedule
        fields = ("name", "type", "payload", "cron", "timezone", "catch_up", "priority")
        widgets = {
            "payload": forms.Textarea(attrs={"rows": 4, "class": "sp-mono"}),
            "cron": forms.TextInput(attrs={"size": 40, "class": "sp-mono"}),
            "timezone": forms.TextInput(attrs={"list": "timezones", "size": 40}),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "type" in self.fields:
            names = {kind.name for kind in registry.all_types()} | ({self.instance.type} - {""})
            choices = [("", "---------"), *((name, name) for name in sorted(names))]
            self.fields["type"] = forms.ChoiceField(label="Job type", choices=choices)
        if "priority" in self.fields:
            about = f"{', '.join(labels())} or a whole number (lower runs first); empty: that of the type"
            self.fields["priority"] = forms.CharField(label="Priority", required=False, help_text=about)

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if name in all_declared():
            raise ValidationError("The code declares a schedule of this name.", code="in_code")
        return name

    def clean_priority(self) -> int | None:
        given = self.cleaned_data["priority"]
        try:
            return parse_priority(given) if given else None
        except BadValue as problem:
            raise ValidationError(str(problem), code=problem.code) from None

    def clean_payload(self) -> dict[str, Any]:
        payload = self.cleaned_data["payload"]
        if payload is None:
            return {}
        if not isinstance(payload, dict):
            raise ValidationError('A JSON object, such as {"days": 3}.', code="not_an_object")
        try:
            payloads.encode_payload(payload)
        except InvalidPayload as problem:
            raise ValidationError(str(problem), code="bad_payload") from None
        return payload

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        self._check_arguments(given)
        self._check_expression(given)
        return given

    def _check_arguments(self, given: dict[str, Any]) -> None:
        kind = registry.find(given.get("type", ""))
        if kind is None or "payload" not in given:
            return
        if problem := kind.arguments_problem(given["payload"]):
            self.add_error("payload", ValidationError(problem, code="bad_arguments"))

    def _check_expression(self, given: dict[str, Any]) -> None:
        if "cron" in given and "timezone" in given:
            for field, expression in (
                ("timezone", ("0 0 * * *", given["timezone"])),
                ("cron", (given["cron"], "UTC")),
            ):
                try:
                    Expression(*expression)
                except BadExpression as problem:
                    self.add_error(field, ValidationError(str(problem), code=f"bad_{field}"))
