"""Every record that a query can find, or that waits landed for its window, against the acknowledgement log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from tests.soak import acknowledged
from tests.soak.scene import NAME, Scene
from tidegate.core.base.errors import CatalogueError
from tidegate.core.files.receipt import DATA
from tidegate.core.target.paths import Layout
from tidegate.ledger import SqlLedger
from tidegate.targets.hive.tables import data_table, dirty_table, late_table

WAITING = "waiting"
_EXAMPLES = 5


@dataclass(frozen=True)
class Comparison:
    """`missing` were acknowledged and are nowhere, `double` are there more than once (acknowledged or not).

    `unacknowledged` are there once, without an acknowledgement: the broker died between writing and answering."""

    acknowledged: int
    found: int
    missing: int
    double: int
    unacknowledged: int
    rows: dict[str, int]
    examples: tuple[str, ...]

    @property
    def exact(self) -> bool:
        return not self.missing and not self.double


def compare(scene: Scene, acked: acknowledged.Runs) -> Comparison:
    """Files count as Hive counts them: whatever lies visibly in a partition's directory."""
    ends = {p: o.high_watermark for p, o in scene.source().look(scene.topic).partitions.items()}
    seen = {p: np.zeros(end, np.uint16) for p, end in ends.items()}
    rows: Counter[str] = Counter()
    for kind, path in _files(scene):
        table = pq.ParquetFile(path).read(columns=["_partition", "_offset"])
        partitions, offsets = (table.column(i).to_numpy() for i in range(2))
        rows[kind] += len(offsets)
        for p in np.unique(partitions):
            unique, counts = np.unique(offsets[partitions == p], return_counts=True)
            seen[int(p)][unique] += counts.astype(np.uint16)
    missing = double = unasked = 0
    examples: list[str] = []
    for p, found in seen.items():
        due = np.zeros(len(found), bool)
        for first, last in acked.get(p, []):
            due[first : last + 1] = True
        lost, twice = np.flatnonzero(due & (found == 0)), np.flatnonzero(found > 1)
        missing, double = missing + len(lost), double + len(twice)
        unasked += int(np.count_nonzero(~due & (found > 0)))
        examples += [f"missing: partition {p} offset {o}" for o in lost[:_EXAMPLES]]
        examples += [f"double: partition {p} offset {o}, {found[o]} times" for o in twice[:_EXAMPLES]]
    total = acknowledged.count(acked)
    return Comparison(total, sum(rows.values()), missing, double, unasked, dict(rows), tuple(examples))


def _files(scene: Scene) -> Iterator[tuple[str, Path]]:
    catalogue, spec = scene.catalogue(), scene.pipeline
    for kind, table in (("data", data_table(spec)), ("late", late_table(spec)), ("dirty", dirty_table(spec))):
        try:
            partitions = catalogue.partitions(table.name)
        except CatalogueError:
            continue  # nothing of this kind so far
        for location in partitions.values():
            for path in sorted(Path(location.removeprefix("file://")).rglob("*")):
                if path.is_file() and not path.name.startswith(("_", ".")):
                    yield kind, path
    for path in _waiting(scene):
        yield WAITING, path


def _waiting(scene: Scene) -> Iterator[Path]:
    """Data files of landed batches whose windows are not published yet."""
    layout = Layout.of(scene.pipeline)
    ledger = SqlLedger(scene.ledger_url, "soak")
    try:
        published = ledger.windows.published_starts(NAME)
        for batch_id, _ in ledger.reads.landed(NAME):
            for f in ledger.batches.manifest_files(NAME, batch_id, DATA):
                if f.window_ms not in published:
                    yield Path(layout.landed(batch_id).removeprefix("file://")) / f.path
    finally:
        ledger.close()
