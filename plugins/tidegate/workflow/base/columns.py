"""The columns of a pipeline: the YAML's, and those that were accepted for it. A registered spec has both."""

from __future__ import annotations

from tidegate.core.ledger import Ledger
from tidegate.core.spec import schema_changes
from tidegate.core.spec.pipeline import Pipeline


def in_force(pipeline: Pipeline, ledger: Ledger) -> Pipeline:
    """The YAML's pipeline with the columns that were accepted for it: what every context is opened with.

    Accepted columns stay when the YAML no longer says `evolve`. Raises LedgerError."""
    if pipeline.format.debezium is None:
        return pipeline
    return schema_changes.in_force(pipeline, ledger.schema_changes.changes(pipeline.name))
