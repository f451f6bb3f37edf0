"""Servers of a mirror one after the other: what is the matter with one of them holds up none of the others (S11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from tidegate.core.base.errors import (
    Alarm,
    BatchRefused,
    CatalogueError,
    LedgerError,
    LostComparison,
    StepMissing,
    StorageError,
    TidegateError,
)
from tidegate.core.base.wording import many
from tidegate.core.copy.port import Database
from tidegate.workflow.base import servers
from tidegate.workflow.base.context import Context
from tidegate.workflow.copy.copy import Read, copy
from tidegate.workflow.copy.standing import Greatest

_OF_ALL = (LedgerError, StorageError, CatalogueError, BatchRefused, Alarm, StepMissing)
Done = TypeVar("Done")


class _Reader(Protocol):
    @property
    def greatest(self) -> Greatest: ...


Opened = Callable[[str], AbstractContextManager[tuple[Database, _Reader]]]


@dataclass(frozen=True)
class Tried:
    """What was read of a server, or why it was not."""

    server: str
    read: Read = field(default_factory=Read)
    error: TidegateError | None = None

    @property
    def words(self) -> str:
        """`server a: not read: it gives no answer`."""
        if self.error is not None:
            said = f"not read: {self.error}"
        elif self.read.chunks:
            said = f"{many(self.read.rows, 'row')} read"
        else:
            said = "another task reads what is left" if self.read.left else "every chunk of the newest copy is read"
        return f"server {self.server}: {said}" if self.server else said


def of_each(names: Iterable[str], work: Callable[[str], Done]) -> Iterator[tuple[str, Done | TidegateError]]:
    """What `work` returns for each server, or what is the matter with it. Raises what is the matter with all, and with
    the only one."""
    for name in names:
        found: Done | TidegateError
        try:
            found = work(name)
        except TidegateError as e:
            if not name or (isinstance(e, _OF_ALL) and not isinstance(e, LostComparison)):
                raise
            found = e
        yield name, found


def copy_each(
    ctx: Context, opened: Opened, go_on: Callable[[], bool] = lambda: True, server: str = ""
) -> Iterator[Tried]:
    """Read what is left of each server of which something is, or of one. `opened` gives its database, and a reader of
    what has landed; `go_on` as `copy` has it. Raises as `copy` does, of several servers what is no fault of one."""

    def read(name: str) -> Read:
        with opened(name) as (database, reader):
            return copy(ctx, database, go_on=go_on, greatest=reader.greatest, server=name)

    for name, found in of_each([server] if server else servers.to_read(ctx), read):
        yield Tried(name, error=found) if isinstance(found, TidegateError) else Tried(name, found)
