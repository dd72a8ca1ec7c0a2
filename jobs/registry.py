"""What can be run, under which policy: JobType and the @job_type decorator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from django.utils.module_loading import autodiscover_modules

from jobs.breakers.declarations import check_name as check_breaker_name
from jobs.exceptions import BadValue, UnknownJobType
from jobs.priorities import Priority
from jobs.remote_work import PLAIN, RemoteWork

Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)


@dataclass(frozen=True)
class JobType:
    """A registered handler with its policy."""

    name: str
    handler: Handler
    concurrency: int | None = None
    """How many may run at once in the whole fleet; None: as many as there are workers."""
    per_worker: int | None = None
    """How many may run at once in one worker process; None: as many as it has slots."""
    max_attempts: int | None = None
    timeout: timedelta | None = None
    """A hard limit on one attempt."""
    priority: Priority = "normal"
    """Of its jobs, unless they are given another one: a label or a whole number, lower first."""
    requires: frozenset[str] = frozenset()
    """Capabilities a worker must have."""
    prefers: str | None = None
    """A capability (such as gpu) whose idle holders are served first, for a bounded time."""
    artifact: Callable[[dict[str, Any]], bool | None] | None = None
    """Says whether the result of this payload exists already and is valid; None: it cannot tell, leave the record."""
    isolate: bool = False
    """Run in a child process, killed on timeout and cancel."""
    memory_limit: int | None = None
    """Bytes of address space the child process may use; needs isolate."""
    remote: bool | RemoteWork = False
    """Workers that come over HTTP may run it: its handler needs no database, and its payload is theirs to read. A
    RemoteWork says what else they get, and which files they send."""
    breaker: str | None = None
    """The circuit breaker it depends on: while that is open, its jobs stay unclaimed."""
    signature: inspect.Signature = field(init=False, compare=False, repr=False)
    required: frozenset[str] = field(init=False, compare=False, repr=False)
    accepted: frozenset[str] | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        signature = inspect.signature(self.handler)
        named = list(signature.parameters.values())[1:]
        plain = [p for p in named if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        object.__setattr__(self, "signature", signature)
        object.__setattr__(self, "required", frozenset(p.name for p in plain if p.default is p.empty))
        takes_any = any(p.kind is p.VAR_KEYWORD for p in named)
        object.__setattr__(self, "accepted", None if takes_any else frozenset(p.name for p in plain))
        _refuse_nonsense(self)

    @property
    def remote_work(self) -> RemoteWork | None:
        """What remote workers get and send; None: it is not for them."""
        if isinstance(self.remote, RemoteWork):
            return self.remote
        return PLAIN if self.remote else None

    def arguments_problem(self, payload: dict[str, Any]) -> str | None:
        """Why the handler cannot be called with this payload, if it cannot."""
        given = payload.keys()
        if self.required <= given and (self.accepted is None or given <= self.accepted):
            return None  # nearly always; binding takes longer
        try:
            self.signature.bind(None, **payload)
        except TypeError as error:
            return f"{self.name}{self.signature} does not fit the payload: {error}"
        return None


def _refuse_nonsense(kind: JobType) -> None:
    if not kind.name or len(kind.name) > 100:
        raise BadValue(f"A job type's name has 1 to 100 characters, not {kind.name!r}.", code="bad_name")
    if kind.concurrency is not None and kind.concurrency < 1:
        raise BadValue(
            f"{kind.name}: concurrency must be at least 1 (pause the type to stop it).",
            code="bad_concurrency",
        )
    if kind.per_worker is not None and kind.per_worker < 1:
        raise BadValue(f"{kind.name}: per_worker must be at least 1.", code="bad_per_worker")
    if kind.max_attempts is not None and kind.max_attempts < 1:
        raise BadValue(f"{kind.name}: max_attempts must be at least 1.", code="bad_max_attempts")
    timeout: Any = kind.timeout
    if timeout is not None and not (isinstance(timeout, timedelta) and timeout > timedelta(0)):
        raise BadValue(f"{kind.name}: timeout must be a timedelta longer than zero.", code="bad_timeout")
    if kind.memory_limit is not None and not kind.isolate:
        raise BadValue(f"{kind.name}: memory_limit needs isolate=True.", code="not_isolated")
    if kind.breaker is not None:
        check_breaker_name(kind.breaker)
    if not kind.signature.parameters:
        raise BadValue(f"{kind.name}: the handler takes the job as its first argument.", code="bad_handler")


_types: dict[str, JobType] = {}


def job_type(
    name: str,
    *,
    concurrency: int | None = None,
    per_worker: int | None = None,
    max_attempts: int | None = None,
    timeout: timedelta | None = None,
    priority: Priority = "normal",
    requires: Iterable[str] = (),
    prefers: str | None = None,
    artifact: Callable[[dict[str, Any]], bool | None] | None = None,
    isolate: bool = False,
    memory_limit: int | None = None,
    remote: bool | RemoteWork = False,
    breaker: str | None = None,
) -> Callable[[H], H]:
    """Register the decorated function as the handler of jobs of this type."""
    if isinstance(requires, str):
        raise BadValue(
            f"{name}: requires is a list of capabilities, such as [{requires!r}].", code="bad_requires"
        )

    def register(handler: H) -> H:
        known = _types.get(name)
        if known and (known.handler.__module__, known.handler.__qualname__) != (
            handler.__module__,
            handler.__qualname__,
        ):
            raise BadValue(
                f"Job type {name!r} is registered already, by {known.handler.__module__}.", code="name_taken"
            )
        _types[name] = JobType(
            name=name,
            handler=handler,
            concurrency=concurrency,
            per_worker=per_worker,
            max_attempts=max_attempts,
            timeout=timeout,
            priority=priority,
            requires=frozenset(requires),
            prefers=prefers,
            artifact=artifact,
            isolate=isolate,
            memory_limit=memory_limit,
            remote=remote,
            breaker=breaker,
        )
        return handler

    return register


def get(name: str) -> JobType:
    try:
        return _types[name]
    except KeyError:
        raise UnknownJobType(name, list(_types)) from None


def find(name: str) -> JobType | None:
    return _types.get(name)


def all_types() -> list[JobType]:
    return sorted(_types.values(), key=lambda kind: kind.name)


def discover() -> None:
    """Import job_types.py of every installed app, as admin.py is imported."""
    autodiscover_modules("job_types")
