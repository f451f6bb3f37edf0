"""The ledger's table of deliveries: as `schema`, which has all others."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer

from tidegate.core.deliver.states import WANTED, DeliveryState
from tidegate.ledger import columns
from tidegate.ledger.texts import String, Text, Word

_required = columns.required

deliveries = columns.table(  # what stands of windows in further systems; a window without a row was never sent
    "deliveries",
    Column("pipeline", columns.NAME, primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("window_ms", BigInteger, primary_key=True, autoincrement=False),
    _required("generation", Integer),  # of the newest try
    _required("digest", String(64)),
    _required("state", Word(DeliveryState)),
    _required("epoch", Integer),
    _required("nonce", String(32)),
    _required("since_ms", BigInteger),
    _required("why", Text),
    Column("stood", Integer),  # the newest generation that was read back there
    Column("rows", BigInteger),  # of it
    Column("checksum", String(20)),
    Column("stood_ms", BigInteger),
    columns.partial_index("ix_deliveries_wanted", f"state IN ('{WANTED[0]}', '{WANTED[1]}')", "pipeline", "name"),
)
