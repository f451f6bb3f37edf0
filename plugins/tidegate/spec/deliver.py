"""The list `deliver`: further systems that get each published window. Each kind's folder adds keys of its own."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from tidegate.kinds import DELIVERIES
from tidegate.spec.by_kind import WORD, ByKind
from tidegate.spec.section import Section, key
from tidegate.spec.values import ConnectionId, Instant, Period, PipelineName, show

_TABLE = r"([a-z][a-z0-9_]*\.)?[a-z][a-z0-9_]*"


def _table(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(_TABLE, value) or len(value) > 120:
        raise ValueError(f"must be table or schema.table, in lower case, 120 characters at most, not {show(value)}")
    return value


DeliveredTable = Annotated[
    str,
    BeforeValidator(_table),
    WithJsonSchema({"type": "string", "pattern": f"^{_TABLE}$", "x-type": "table or schema.table"}),
]
DELIVERY = ByKind(DELIVERIES, "postgresql")
Kind = Annotated[str, BeforeValidator(DELIVERY.installed), WORD]


class DeliverySection(Section):
    """A further system that gets each published window, and each later generation of it
    ([deliveries](deliveries.md)). Not with `sink.kind: mirror`."""

    kind: Kind = key("Kind of system. Packages can bring more by an entry point of the group `tidegate.deliveries`.")
    name: PipelineName = key("Name of the delivery, by which commands, the board and the ledger know it. It stays.")
    conn_id: ConnectionId = key("Airflow connection of the system.")
    table: DeliveredTable = key(
        "The table there, `table` or `schema.table`; Tidegate creates it if it is missing, and adds columns. It "
        "belongs to this delivery alone."
    )
    since: Instant | None = key(
        "Windows that begin earlier are sent only by `tidegate deliver` and by a backfill; null: all are sent.", None
    )
    sla: Period | None = key(
        "How long after its publication a window may take to stand there; later ones are told of. null: nobody is.",
        None,
    )

    @property
    def sides(self) -> tuple[str, ...]:
        """Tables beside the pipeline's own that are sent, too: late, dirty."""
        return ()
