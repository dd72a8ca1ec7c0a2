"""What the stream at /api/events/ offers: each query parameter with its topics and the permissions that open it.

The queue offers `job`, `workflow` and `worker`. Another app adds its own when it is loaded:

    live.offer(live.Offer("video", ("videos.view_video", "videos.change_video"), followed_topics, "the id of a video"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import QueryDict

from jobs.live.topic import Topic
from jobs.ulid import is_ulid

LAST_EVENT_ID = "last_event_id"
"""The query parameter for clients that cannot send the header of this name."""


class BadTopic(ValueError):
    """A query names something that is no topic. The text is for the caller."""


@dataclass(frozen=True)
class Offer:
    parameter: str
    """May be given several times."""
    permissions: tuple[str, ...]
    """Each of them is enough."""
    topics: Callable[[Sequence[str]], list[Topic]]
    """Takes the values of the parameter; raises BadTopic."""
    help: str
    """For the document of the API."""


_offers: dict[str, Offer] = {}


def offer(offered: Offer) -> None:
    _offers[offered.parameter] = offered


def all_offers() -> list[Offer]:
    return list(_offers.values())


def topics_for(user: Any, query: QueryDict) -> list[Topic]:
    """What the query asks for. Raises BadTopic, or PermissionDenied if the user may not see one of the things named."""
    unknown = set(query) - {*_offers, LAST_EVENT_ID}
    if unknown:
        raise BadTopic(f"{min(unknown)[:40]!r} is nothing to follow; there are {', '.join(_offers)}.")
    topics: list[Topic] = []
    for parameter, offered in _offers.items():
        values = query.getlist(parameter)
        if not values:
            continue
        if not any(user.has_perm(permission) for permission in offered.permissions):
            raise PermissionDenied(
                f"{parameter}: This takes the permission {' or '.join(offered.permissions)}."
            )
        topics += offered.topics(values)
    if not topics:
        raise BadTopic(f"Say what to follow: {' or '.join(f'?{name}=…' for name in _offers)}.")
    return topics


def ids_among(values: Iterable[str], *, most: int) -> list[str]:
    """The values, each an id, sorted, without repetitions. Raises BadTopic."""
    ids = sorted(set(values))
    for value in ids:
        if not is_ulid(value):
            raise BadTopic(f"{value[:40]!r} is not an id.")
    if len(ids) > most:
        raise BadTopic(f"At most {most} of a kind can be followed at once.")
    return ids
