"""A world whose windows are copied from an Iceberg table to one of another cluster: its catalogue on SQLite, its files
on this disk or in an object store in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyiceberg.table.metadata import TableMetadata

from tests.crash import lakehouse
from tests.deliver.cluster_lab import TABLE, ClusterLab
from tests.targets.iceberg.lab import Tables, through
from tests.world import HOUR, T0
from tidegate.core.deliver.units import name_of
from tidegate.targets.cluster import iceberg
from tidegate.targets.cluster.iceberg import IcebergCopy
from tidegate.targets.cluster.kind import there
from tidegate.targets.cluster.table import Options, Site
from tidegate.targets.iceberg import live
from tidegate.targets.iceberg.catalogue import Loaded


class IcebergLab(ClusterLab):
    """`own`: the pipeline's own place, if it is another."""

    def __init__(
        self,
        folder: Path,
        objects: bool = False,
        own: str = "",
        wrap: Any = None,
        wrap_far: Callable[[str, Any], Any] = lambda name, port: port,
        sides: tuple[str, ...] = (),
        **keys: str,
    ) -> None:
        super().__init__(folder, wrap=wrap, wrap_far=wrap_far, sides=sides, objects=objects, **keys)
        if own:
            self.world.change_spec(sink=replace(self.pipeline.sink, location=own, workdir=f"{own}/_tidegate"))
        lakehouse.install(self.world)
        self.there = dict(self.one.options)["location"]

    def system(self, side: str = "") -> IcebergCopy:  # type: ignore[override]
        options = dict(self.one.options)
        spec = there(self.pipeline, TABLE, options, side=side)
        storage = self.wrap_far("storage", self.storage)
        site = Site(pipeline=spec, storage=storage, clock=self.world.clock)
        targets = Tables(self.wrap_far("iceberg", self._catalogue(storage)))
        return iceberg.copy(site, storage, targets, Options.of(name_of("shop", side) if side else "shop", options))

    def _catalogue(self, storage: Any) -> Any:
        return through(lakehouse._opened(f"sqlite:///{self.world.folder}/there.db"), storage)

    # ------------------------------------------------------------ what stands there

    def loaded(self) -> Loaded | None:
        found: Loaded | None = self._catalogue(self.storage).load(TABLE)
        return found

    @property
    def metadata(self) -> TableMetadata:
        loaded = self.loaded()
        assert loaded is not None
        return loaded.metadata

    def uris(self, hour: int = 0) -> list[str]:
        """Files that a query of the hour reads."""
        loaded = self.loaded()
        if loaded is None:
            return []
        return sorted(f.file_path for f in live.look(loaded.metadata, loaded.io, {(T0 + hour * HOUR) * 1000}).files)

    def own(self, hour: int = 0) -> Any:
        """Bytes of the files of the generation in force, at home."""
        start_us = (T0 + hour * HOUR) * 1000
        live_ = (f.file_path for f in lakehouse.live(self.world) if f.partition[0] == start_us)
        return sorted(self.world.store.open_existing(uri).read() for uri in live_)  # type: ignore[attr-defined]

    def copied(self, hour: int = 0) -> Any:
        """The same of what the table there names."""
        found = []
        for uri in self.uris(hour):
            with self.storage.open_existing(uri) as file:
                found.append(file.read())
        return sorted(found)

    def orders(self) -> dict[Any, list[tuple[int, int]]]:
        """By the tokens of all commits."""
        found: dict[Any, list[tuple[int, int]]] = {}
        for snapshot in self.metadata.snapshots:
            token = live.token_in(snapshot)
            assert token is not None
            found.setdefault(token.unit, []).append((token.generation, token.epoch))
        return found
