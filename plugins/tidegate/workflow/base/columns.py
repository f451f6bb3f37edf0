"""A pipeline as it is in force: the YAML's, with what the ledger knows of it beside."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.base.errors import SpecError
from tidegate.core.ledger import Ledger
from tidegate.core.spec import schema_changes
from tidegate.core.spec.pipeline import Pipeline


def in_force(pipeline: Pipeline, ledger: Ledger) -> Pipeline:
    """The YAML's pipeline with the columns that were accepted for it, at its active site: what every context is opened
    with.

    Accepted columns stay when the YAML no longer says `evolve`. Raises LedgerError, SpecError."""
    pipeline = at_active_site(pipeline, ledger)
    if pipeline.format.debezium is None:
        return pipeline
    return schema_changes.in_force(pipeline, ledger.schema_changes.changes(pipeline.name))


def at_active_site(pipeline: Pipeline, ledger: Ledger) -> Pipeline:
    """The pipeline, read at the site that is active by the ledger. Raises SpecError if the YAML does not name it."""
    source = pipeline.source
    newest = ledger.failovers.newest(pipeline.name) if source.sites else None
    if newest is None or newest.site == source.site:
        return pipeline
    if newest.site not in {site.name for site in source.sites}:
        raise SpecError(
            f"{pipeline.name}: site {newest.site} is active, and source.sites does not name it",
            advice="take the change back: sites that were active keep their names",
        )
    return replace(pipeline, source=source.at(newest.site))
