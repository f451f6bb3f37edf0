"""Files of landed change events for incremental readers: the ledger says which, storage is not asked."""

from __future__ import annotations

from typing import Protocol

from tidegate.core.base.errors import SpecError
from tidegate.core.files.receipt import DATA
from tidegate.core.ledger import BatchLedger
from tidegate.core.mirror.applies import ApplyLedger
from tidegate.core.mirror.changes import ChangeFile, between
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.paths import Layout, join
from tidegate.workflow.base.context import landed
from tidegate.workflow.window.waits import SpecsInForce


class ChangesLedger(Protocol):
    """What readers of changes ask of the ledger."""

    @property
    def specs(self) -> SpecsInForce: ...
    @property
    def batches(self) -> BatchLedger: ...
    @property
    def applies(self) -> ApplyLedger: ...


def changes(
    ledger: ChangesLedger, spec: Pipeline, after: int, until: int | None = None
) -> tuple[int, tuple[ChangeFile, ...]]:
    """The last batch that is read (`after` if no batch is above it), and the files of all batches above `after`.

    Raises what `core.mirror.changes.between` raises; SpecError for a pipeline with windows, whose landed files are
    cleaned away; LedgerError."""
    if spec.windows.closes:
        raise SpecError(
            f"{spec.name} is published by windows, which are what is read of it",
            advice=f"tidegate files {spec.name} <window>",
        )
    found = between(spec.name, after, until, ledger.applies.landed(spec.name, after))
    if found is None:
        return after, ()
    batches = range(found.first, found.last + 1)
    return found.last, tuple(file for batch_id in batches for file in _files(ledger, spec, batch_id))


def _files(ledger: ChangesLedger, spec: Pipeline, batch_id: int) -> list[ChangeFile]:
    batch = ledger.batches.get(spec.name, batch_id)
    home = landed(Layout.of(spec), batch)
    return [
        ChangeFile(
            batch_id=batch_id,
            path=join(home, f.path),
            rows=f.rows,
            bytes=f.bytes,
            spec_version=batch.plan.spec_version,
        )
        for f in ledger.batches.manifest_files(spec.name, batch_id, DATA)
    ]
