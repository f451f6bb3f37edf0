"""A world whose tables are Iceberg's, in a catalogue on SQLite, and what readers of them meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pyiceberg.table.metadata import TableMetadata

from spark_jobs.engine.sinks import finished
from tests.target_suite import Lab, make_lab
from tests.world import World
from tidegate.core.base.storage import Storage
from tidegate.core.files.receipt import DATA
from tidegate.core.target.port import SideTarget, Site, Target
from tidegate.core.target.tables import table_name
from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg.catalogue import Catalogue
from tidegate.targets.iceberg.file_io import StorageIO
from tidegate.targets.iceberg.live import look
from tidegate.targets.iceberg.sides import IcebergSide
from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue
from tidegate.targets.iceberg.table import IcebergTable


class Tables:
    """Implements `core.target.port.Targets`."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    def data(self, site: Site) -> Target:
        return IcebergTable(site, self.catalogue)

    def side(self, site: Site, kind: str) -> SideTarget:
        return IcebergSide(site, self.catalogue, kind)


def sqlite(folder: Path, storage: Storage | None = None) -> SqlCatalogue:
    return SqlCatalogue(f"sqlite:///{folder}/catalogue.db", "tidegate", storage or LocalStorage(), 10.0)


def through(catalogue: SqlCatalogue, storage: Storage) -> SqlCatalogue:
    """The same catalogue, with metadata and manifests by this storage; statements stay compiled."""
    found = SqlCatalogue.__new__(SqlCatalogue)
    found.__dict__.update(catalogue.__dict__)
    found._io = StorageIO(storage)
    return found


def metadata_of(world: World, catalogue: Catalogue, kind: str = DATA) -> TableMetadata | None:
    loaded = catalogue.load(table_name(world.pipeline, kind))
    return None if loaded is None else loaded.metadata


def reader(world: World, catalogue: Catalogue) -> Callable[[str], Counter[tuple[int, int]]]:
    """Kafka coordinates of the rows in the files that the table's current snapshot names."""

    def read(kind: str) -> Counter[tuple[int, int]]:
        loaded = catalogue.load(table_name(world.pipeline, kind))
        if loaded is None:
            return Counter()
        rows: Counter[tuple[int, int]] = Counter()
        for f in look(loaded.metadata, loaded.io, None).files:
            path = Path(f.file_path.removeprefix("file://"))
            assert path.stat().st_size == f.file_size_in_bytes
            with path.open("rb") as file:
                for batch in finished(path.name, file).batches(100_000, ["_partition", "_offset"]):
                    rows.update(zip(*batch.to_pydict().values(), strict=True))
        return rows

    return read


def make(folder: Path, catalogue: Catalogue) -> Lab:
    lab = make_lab(
        folder, lambda world: Tables(catalogue), ("commit",), True,
        kind="iceberg", conn_id="lake", table=f"{folder.name}.readings".replace("-", "_"),
    )  # fmt: skip
    lab.read, lab.waits = reader(lab.world, catalogue), False
    return lab
