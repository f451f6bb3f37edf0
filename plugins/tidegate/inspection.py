"""A workflow's context to look with: it registers nothing, starts no job, and connects on first use.

For commands and pages; `wiring.context_for` makes the one that works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.adapters.connections import Lookup
    from tidegate.core.source.port import Source
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.core.target.port import Targets
    from tidegate.ledger import SqlLedger
    from tidegate.workflow.base.context import Context


def context(
    pipeline: Pipeline,
    ledger: SqlLedger,
    lookup: Lookup,
    source: Callable[[Pipeline], Source],
    say: Callable[[str], None] = lambda line: None,
) -> Context:
    """The context; its `spec_version` is 0 for a spec that no run has registered. `source` opens the one of its active
    site. Raises LedgerError."""
    from tidegate.adapters.clock import SystemClock
    from tidegate.adapters.later import Later
    from tidegate.spec.compiled import fingerprint
    from tidegate.workflow.base.columns import in_force
    from tidegate.workflow.base.context import Context

    pipeline = in_force(pipeline, ledger)
    return Context(
        pipeline=pipeline,
        spec_version=ledger.reads.spec_version(pipeline.name, fingerprint(pipeline)) or 0,
        ledger=ledger,
        source=Later(lambda: source(pipeline)),  # type: ignore[arg-type]
        storage=Later(lambda: _storage(pipeline, lookup)),  # type: ignore[arg-type]
        tables=tables(pipeline, lookup),
        launcher=Later(_no_job),  # type: ignore[arg-type]
        clock=SystemClock(),
        say=say,
    )


def source(pipeline: Pipeline, lookup: Lookup, client_id: str, timeout_s: float) -> Source:
    """The pipeline's source; requests end after `timeout_s`. Raises ConnectionMissing, SourceError."""
    from tidegate.kinds import source_kind

    connection = lookup(pipeline.source.conn_id)
    return source_kind(pipeline.source.kind).opened(connection, pipeline.source, client_id, timeout_s)


def tables(pipeline: Pipeline, lookup: Lookup) -> Targets:
    """Looks up no connection before the first question."""
    from tidegate.kinds import target_kind

    return target_kind(pipeline.sink.kind).opened(pipeline, lookup, True)


def storage_secrets(pipeline: Pipeline, lookup: Lookup) -> dict[str, str]:
    """What child processes need to reach the pipeline's files in an object store. Raises TidegateError."""
    from tidegate.storage.access import access_for, as_secrets

    return as_secrets(access_for(pipeline.sink, lookup))


def _storage(pipeline: Pipeline, lookup: Lookup) -> Any:
    from tidegate.storage import for_uri
    from tidegate.storage.access import access_for

    return for_uri(pipeline.sink.location, pipeline.sink.user, access_for(pipeline.sink, lookup))


def _no_job() -> Any:
    raise NotImplementedError("a context to look with starts no job")
