"""The address of a webhook, taken apart and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Target:
    host: str
    port: int
    path: str
    secure: bool

    @classmethod
    def parse(cls, url: str) -> Target:
        """Raises ValueError, with a sentence that does not quote the URL."""
        if not re.fullmatch(r"[\x21-\x7e]{1,2000}", url):
            raise ValueError("a webhook's URL has at most 2000 characters, ASCII without blanks")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ValueError("this is not a URL") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("a webhook's URL begins with https:// (or http://) and a host")
        if parts.username is not None or parts.password is not None or parts.fragment:
            raise ValueError("a webhook's URL has no user, password or fragment")
        secure = parts.scheme == "https"
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.hostname, port or (443 if secure else 80), path, secure)

    @property
    def host_header(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.secure else 80) else f"{name}:{self.port}"
