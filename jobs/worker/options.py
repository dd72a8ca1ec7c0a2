"""What a worker was started with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from jobs import registry


@dataclass(frozen=True)
class Options:
    concurrency: int = 8
    name: str | None = None
    types: Collection[str] | None = None
    exclude_types: Collection[str] = ()
    capabilities: Collection[str] = ()
    once: bool = False
    """Run one job (or find none) and exit."""
    drain: bool = False
    """Exit when nothing that is pending or due can be claimed."""
    until_empty: bool = False
    """Exit when nothing is pending, due or running anywhere."""
    supervised: bool = False
    """Forked by a supervisor, which alone tells a first signal from a second."""

    @property
    def ends_by_itself(self) -> bool:
        return self.once or self.drain or self.until_empty

    def handled_types(self) -> list[str]:
        names = {kind.name for kind in registry.all_types()} if self.types is None else set(self.types)
        return sorted(names - set(self.exclude_types))

    @property
    def slots(self) -> int:
        return 1 if self.once else self.concurrency
