"""What `tidegate doctor` looks at of a mirror's source: its tables as a copy reads them, and the connector that brings
their events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.adapters.connections import Lookup, http_url
from tidegate.core.base.errors import NotReady, TidegateError
from tidegate.core.base.wording import many
from tidegate.core.doctor import connectors
from tidegate.core.doctor.findings import WARNING, Finding, ok
from tidegate.core.doctor.rules import refused
from tidegate.core.files.failure import JobError
from tidegate.core.spec.copy import CopiedServer
from tidegate.databases import connector
from tidegate.databases.conversions import planned
from tidegate.databases.kinds import kind_of
from tidegate.wiring import open_database
from tidegate.workflow.copy.tables import SourceTables

if TYPE_CHECKING:
    from tidegate.workflow.base.context import Context


def examined(ctx: Context, server: CopiedServer, lookup: Lookup, seconds: float) -> list[Finding]:
    """Of one server, and of its connector where the YAML names it. `seconds`: for each answer."""
    found = _tables(ctx, server, lookup, seconds)
    return found if not server.is_told else found + _connector(ctx, server, lookup, seconds)


def _tables(ctx: Context, server: CopiedServer, lookup: Lookup, seconds: float) -> list[Finding]:
    whose = f"server {server.name}: " if server.name else ""
    means = "nothing can be copied or compared"
    try:
        kind = kind_of(lookup(server.conn_id))
        with open_database(ctx.pipeline, lookup, seconds, server.name) as database:
            tables = SourceTables(ctx, database, server.name)
            for name in tables.names:
                wanted = tables.to_read(name)
                planned(kind, wanted.table, [(c.of, c.type) for c in wanted.columns], "base64")
            database.position()
            database.log_begin()
            lacking = tables.lacking()
    except NotReady as e:
        return [refused("copy", ctx.name, f"{whose}{e.args[0]}", "the copy waits", e.advice, WARNING)]
    except JobError as e:
        return [refused("copy", ctx.name, f"{whose}{e.failure.what}", means, e.failure.advice)]
    except TidegateError as e:
        return [refused("copy", ctx.name, f"{whose}{e.args[0]}", means, e.advice)]
    which = tables.names[0] if len(tables.names) == 1 else many(len(tables.names), "table")
    if lacking:
        columns = f"column{'s' * (len(lacking) > 1)} {', '.join(lacking)}"
        means = "if the source gets it with a default, rows that do not change then stay null, and nothing says so"
        mend = f"after that: tidegate compare {ctx.name}; where the source has dropped it, nothing is to be done"
        return [Finding("copy", WARNING, f"{whose}{which} can be read, but has no {columns}", means, mend, ctx.name)]
    return [ok("copy", f"{whose}{which} can be read, and its log", ctx.name)]


def _connector(ctx: Context, server: CopiedServer, lookup: Lookup, seconds: float) -> list[Finding]:
    means = "the mirror does not say since when nothing in it is older"
    try:
        if server.slot is not None:
            connector.slot_position(lookup(server.conn_id), server.slot, seconds, ctx.pipeline.copy)
            return [ok("connector", f"slot {server.slot} says how far its reader is", ctx.name)]
        assert server.connect_conn_id is not None
        assert server.connector is not None
        url = http_url(lookup(server.connect_conn_id))
        state = connector.connect_state(url, server.connector, seconds)
        found = connectors.connector(ctx.name, state, ctx.pipeline.copy.table if ctx.pipeline.copy else "")
        connector.connect_position(url, server.connector, seconds)
    except TidegateError as e:
        return [refused("connector", ctx.name, str(e.args[0]), means, e.advice, WARNING)]
    return found or [ok("connector", f"connector {server.connector} runs, and says how far it is", ctx.name)]
