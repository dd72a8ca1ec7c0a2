"""Errors that a breaker knows of already, so that the end of the job does not count them once more."""

from __future__ import annotations


def mark(error: BaseException, name: str) -> None:
    try:
        error._noted_by_breakers = {*getattr(error, "_noted_by_breakers", ()), name}  # type: ignore[attr-defined]
    except AttributeError:
        return  # an exception with slots: the job's own breaker counts it once more


def noted_by(error: BaseException) -> tuple[str, ...]:
    """The breakers that know of this error, or of one that led to it, already."""
    found: set[str] = set()
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        found.update(getattr(cause, "_noted_by_breakers", ()))
        cause = cause.__cause__ or cause.__context__
    return tuple(sorted(found))
