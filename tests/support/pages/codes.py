"""What pages and messages say, as codes: English may change, these may not."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.messages import get_messages


def told(response: Any) -> list[str]:
    """The messages for the user: each as its code and its level, such as "job_retry success"."""
    return [message.tags for message in get_messages(response.wsgi_request)]


def told_on(page: str) -> list[str]:
    """The same, read off the page that shows them."""
    shown = re.search(r'<ul class="messagelist">(.*?)</ul>', page, re.DOTALL)
    return re.findall(r'<li class="([^"]*)">', shown[1]) if shown else []


def codes_on(page: str) -> list[str]:
    """What the page has to say, in its order: the codes of its elements."""
    return re.findall(r'data-code="([^"]*)"', page)


def numbers_in(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]
