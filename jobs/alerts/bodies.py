"""An alert as JSON, the way the other side reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from jobs.alerts.wording import Alert

_LONGEST_DISCORD = 2000
_LONGEST_SLACK = 3000


def make_body(alert: Alert, style: str) -> bytes:
    return json.dumps(_STYLES[style](alert), ensure_ascii=False).encode()


def choose_style(setting: str, url: str) -> str:
    """As set; "auto" goes by the address."""
    if setting != "auto":
        return setting
    host = (urlsplit(url).hostname or "").lower()
    if host == "hooks.slack.com":
        return "slack"
    is_discord = host in ("discord.com", "discordapp.com") or host.endswith(
        (".discord.com", ".discordapp.com")
    )
    return "discord" if is_discord else "json"


def _slack(alert: Alert) -> dict[str, Any]:
    # Otherwise an error message could call everybody in the channel, or dress a link up.
    text = alert.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": f"*{alert.kind}* {text}"[:_LONGEST_SLACK]}


def _discord(alert: Alert) -> dict[str, Any]:
    text = f"**{alert.kind}** {alert.text}"
    return {"content": text[:_LONGEST_DISCORD], "allowed_mentions": {"parse": []}}


def _plain(alert: Alert) -> dict[str, Any]:
    return {
        "id": alert.id,
        "kind": str(alert.kind),
        "text": alert.text,
        "at": alert.at,
        "facts": dict(alert.facts),
        "held_back": alert.held_back,
    }


_STYLES: dict[str, Callable[[Alert], dict[str, Any]]] = {"slack": _slack, "discord": _discord, "json": _plain}
