"""The ledger's tables of failovers: as `schema`, which has all others."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer

from tidegate.ledger import columns
from tidegate.ledger.texts import String, Text

_required = columns.required

failovers = columns.table(  # switches of the active site; the newest one's is active
    "failovers",
    Column("pipeline", columns.NAME, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    _required("site", String(100)),
    _required("before", String(100)),
    _required("certificate", Text),  # core.failover.states.Certificate
    _required("why", Text),
    _required("at_ms", BigInteger),
)
stretches = columns.table(  # offsets of a topic that are never read: they hold copies
    "stretches",
    Column("pipeline", columns.NAME, primary_key=True),
    Column("topic_id", String(100), primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),  # the switch that they are of
    _required("end", BigInteger),
)
site_ends = columns.table(  # where a site's own records end that returned after this switch, before anything is copied
    "site_ends",
    Column("pipeline", columns.NAME, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("site", String(100), primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    _required("end", BigInteger),
    _required("noted_ms", BigInteger),
)
