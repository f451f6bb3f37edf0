"""What a pipeline's tables in an Iceberg catalogue have in common, whatever their unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from tidegate.core.base.errors import CatalogueError, CatalogueUnsure
from tidegate.core.target.port import Settled, Site
from tidegate.targets.iceberg.catalogue import Catalogue, Conflict, Loaded
from tidegate.targets.iceberg.definition import Definition, Say
from tidegate.targets.iceberg.expiry import sweep
from tidegate.targets.iceberg.leftovers import leftovers
from tidegate.workflow.base.context import ATTEMPTS

T = TypeVar("T")


def in_rounds(once: Callable[[], T], say: Say) -> T:
    """What `once` returns, which loads the table, looks, asks whether it still holds, and commits on what it loaded
    (C1): a refusal and an answer that was lost alike begin at the load, with a write set made anew (C2).

    Raises Conflict, CatalogueUnsure in the end."""
    for _ in range(ATTEMPTS - 1):
        try:
            return once()
        except (Conflict, CatalogueUnsure) as e:
            say(f"{str(e).splitlines()[0]}; looking again")
    return once()


class InCatalogue:
    """A table that is what its `definition` says. `created_by`: what makes a table that is missing."""

    created_by: ClassVar[str]

    def __init__(self, site: Site, catalogue: Catalogue) -> None:
        self.site, self.catalogue = site, catalogue

    @property
    def definition(self) -> Definition:
        """By the spec as it is now: its ids are pinned on the way."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """`namespace.table`, or `namespace.table__late`, `namespace.table__dirty`."""
        return self.definition.name

    def prepare(self) -> None:
        """Create the table, or give it the pipeline's columns; looks first. Raises CatalogueError."""
        self.definition.bring_up(self.catalogue, self.site.say, self.site.landed_fields())

    def sweep(self, settled: Settled) -> list[str]:
        """Let go of answered tags (C5), and of snapshots beyond the newest. Raises CatalogueError."""
        return sweep(self.catalogue, self.name, settled)

    def leftovers(self, now_ms: int) -> list[str]:
        """Metadata, lists and manifests that nothing needs any more (C10). Raises CatalogueError, StorageError."""
        return leftovers(self.catalogue, self.name, self.definition.location, self.site.storage, now_ms)

    def _in_rounds(self, once: Callable[[], T]) -> T:
        return in_rounds(once, lambda words: self.site.say(f"{self.name}: {words}"))

    def _as_made(self) -> Loaded:
        """The table, if nobody has changed it in more than its rows. Raises CatalogueError."""
        loaded = self._load()
        self.definition.refuse_changed(loaded, self.site.landed_fields())
        return loaded

    def _load(self) -> Loaded:
        loaded = self.catalogue.load(self.name)
        if loaded is None:
            raise CatalogueError(f"{self.name} does not exist", advice=f"{self.created_by} creates it")
        return loaded
