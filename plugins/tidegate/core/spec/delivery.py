"""One entry of the list `deliver`, compiled."""

from __future__ import annotations

from dataclasses import dataclass

_OF_THE_PLACE = ("location", "object_store_conn_id")
"""Options that name where a table is, whatever kind has them."""


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A further system that gets each published window. `table`: its name there. `since_ms`: windows that begin
    earlier are sent only when somebody names them; None: all are. `sla_ms`: how long after its publication a window may
    take to stand there; None: nobody is told. `options`: keys that only this kind has, in order of the keys.

    `side`: late | dirty where batches of that table are sent instead of windows; empty: windows."""

    name: str
    kind: str
    conn_id: str
    table: str
    since_ms: int | None = None
    sla_ms: int | None = None
    options: tuple[tuple[str, str], ...] = ()
    side: str = ""

    @property
    def place(self) -> str:
        """What names its table, and those beside it. The ledger keeps it: other words are another place."""
        options = dict(self.options)
        further = (options[key] for key in _OF_THE_PLACE if key in options)
        return " ".join((self.kind, self.conn_id, self.table, *further))
