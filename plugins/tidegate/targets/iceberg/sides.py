"""The tables of late and dirty rows in Iceberg (`core.target.port.SideTarget`): a batch's files are one commit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from pyiceberg.manifest import DataFile

from tidegate.core.spec.pipeline import Fields
from tidegate.core.target.paths import Layout, join
from tidegate.core.target.port import Batches, Holds, Shown, Site, Unit
from tidegate.core.target.stored import Bounds
from tidegate.targets.iceberg import snapshot
from tidegate.targets.iceberg.catalogue import Catalogue, Loaded
from tidegate.targets.iceberg.definition import Definition
from tidegate.targets.iceberg.files import Placed, data_files, part_of, shown
from tidegate.targets.iceberg.in_catalogue import InCatalogue
from tidegate.targets.iceberg.live import PREFIX, Look, Part, look, part_in
from tidegate.workflow.base import bounds

Parts = Mapping[Part, list[Placed]]
"""Files (URI, entry) by the partition that they belong to."""


class IcebergSide(InCatalogue):
    """Implements `core.target.port.SideTarget`. `kind`: late | dirty."""

    unit = Unit.BATCH
    created_by = "the next batch that lands"
    remedy = "clear the task `land` of that batch's run: it commits the files again"

    def __init__(self, site: Site, catalogue: Catalogue, kind: str) -> None:
        super().__init__(site, catalogue)
        self.kind = kind

    @property
    def definition(self) -> Definition:
        return Definition(self.site.pipeline, self.kind)

    def fields(self) -> Fields:
        """(kind of files, path, id) of its columns. Raises CatalogueError."""
        return self.definition.fields(self._load())

    def publish(self, batches: Batches, holds: Holds) -> None:
        """Make these files stand, and nothing else for their parts. Raises CatalogueError, CatalogueUnsure."""
        self._change(batches, holds, present=True)

    def retire(self, batches: Batches, holds: Holds) -> None:
        """Make nothing stand for the parts of these files. Raises CatalogueError, CatalogueUnsure."""
        self._change(batches, holds, present=False)

    def _change(self, batches: Batches, holds: Holds, present: bool) -> None:
        wanted = self._by_part(batches)

        def once() -> None:
            loaded = self._load()
            seen = self._wrong(loaded, wanted, present)
            if seen is not None and holds():
                self._commit(loaded, *seen)

        self._in_rounds(once)

    def _by_part(self, batches: Batches) -> dict[Part, list[Placed]]:
        """Files, which never change their place, with their URIs."""
        found: dict[Part, list[Placed]] = defaultdict(list)
        for batch_id, files in batches.items():
            home = Layout.of(self.site.pipeline).side(batch_id, self.kind)
            for f in files:
                uri = join(home, f.path.removeprefix(f"{self.kind}/"))  # its path, where nothing moves
                found[part_of(self.definition, f, batch_id)].append((uri, f))
        return found

    def _wrong(self, loaded: Loaded, wanted: Parts, present: bool) -> tuple[Look, Parts] | None:
        """What stands, and should not, and what comes for it (C3, C9); None if nothing has to change."""
        seen = look(loaded.metadata, loaded.io, {_batch(part) for part in wanted})
        there: dict[Part, int] = Counter()
        for f in seen.files:
            there[part_in(f)] += f.record_count
        right = {
            part
            for part, files in wanted.items()
            if present and part not in seen.altered and there.get(part) == sum(f.rows for _, f in files)
        }
        goes = {part for part in wanted if part in there and part not in right}
        comes = {part: files for part, files in wanted.items() if part not in right} if present else {}
        return (seen.only(lambda f: part_in(f) in goes), comes) if goes or comes else None

    def _commit(self, loaded: Loaded, seen: Look, comes: Parts) -> None:
        made: list[DataFile] = []
        for part, files in comes.items():
            made += data_files(self.definition, loaded.metadata, files, self._bounds(_batch(part), files), _batch(part))
        said = {f"{PREFIX}pipeline": self.site.pipeline.name}
        updates = snapshot.replaced(loaded.metadata, loaded.io, seen, made, said, None)
        self.catalogue.commit(loaded, (), updates)

    def _bounds(self, batch_id: int, files: list[Placed]) -> dict[str, Bounds]:
        """They stay where the batch has landed."""
        layout = Layout.of(self.site.pipeline)
        homes = {uri: layout.attempt_of(uri) or (layout.landed(batch_id), f.path) for uri, f in files}
        known = {home: bounds.read(self.site.storage, home) for home in {home for home, _ in homes.values()}}
        return {uri: known[home][path] for uri, (home, path) in homes.items() if path in known[home]}

    def agrees(self, expected: str, shown: str) -> bool:
        """Rows of a batch, whatever files hold them (C9)."""
        return expected == shown

    def expected(self, batches: Batches) -> Shown:
        """Rows of each batch."""
        rows = ((part_of(self.definition, f, i), f"batch {i}", f.rows) for i, files in batches.items() for f in files)
        return shown(self.definition, rows)

    def shown(self) -> Shown:
        """Rows of each batch in the table."""
        loaded = self._as_made()
        seen = look(loaded.metadata, loaded.io, None)
        rows = ((part_in(f), f"batch {f.partition[0]}{seen.note(f)}", f.record_count) for f in seen.files)
        return shown(self.definition, rows)


def _batch(part: Part) -> int:
    assert isinstance(part[0], int)
    return part[0]
