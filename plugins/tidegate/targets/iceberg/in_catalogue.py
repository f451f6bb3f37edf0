"""What a pipeline's tables in an Iceberg catalogue have in common, whatever their unit."""

from __future__ import annotations

from typing import ClassVar

from tidegate.core.base.errors import CatalogueError
from tidegate.core.target.port import Settled, Site
from tidegate.targets.iceberg.catalogue import Catalogue, Loaded
from tidegate.targets.iceberg.definition import Definition
from tidegate.targets.iceberg.expiry import sweep
from tidegate.targets.iceberg.leftovers import leftovers


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
        self.definition.bring_up(self.catalogue, self.site.say)

    def sweep(self, settled: Settled) -> list[str]:
        """Let go of answered tags (C5), and of snapshots beyond the newest. Raises CatalogueError."""
        return sweep(self.catalogue, self.name, settled)

    def leftovers(self, now_ms: int) -> list[str]:
        """Metadata, lists and manifests that nothing needs any more (C10). Raises CatalogueError, StorageError."""
        return leftovers(self.catalogue, self.name, self.definition.location, self.site.storage, now_ms)

    def _load(self) -> Loaded:
        loaded = self.catalogue.load(self.name)
        if loaded is None:
            raise CatalogueError(f"{self.name} does not exist", advice=f"{self.created_by} creates it")
        return loaded
