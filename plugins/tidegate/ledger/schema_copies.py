"""The ledger's tables of copies: as `schema`, which has all others."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer

from tidegate.core.copy.rounds import ChunkState, RoundState
from tidegate.ledger import columns
from tidegate.ledger.texts import String, Text, Word

_table, _key, _required = columns.table, columns.key, columns.required

copies = _table(  # rounds: each reads the whole source table of a keyed one
    "copies",
    *_key(round=Integer),
    _required("table_name", Text),
    _required("key", Text),  # a list of columns
    _required("state", Word(RoundState)),
    _required("ended", Boolean),  # its last chunk is cut
    _required("why", Text),
    _required("begun_ms", BigInteger),
    Column("done_ms", BigInteger),  # when it was whole, or given up
    Column("part", Text),  # core.mirror.parts.Part; null: the whole table
    Column("columns", Text),  # a list of the mirror's columns; null: not known
    _required("confirmed", Integer),  # the newest comparison without a difference; 0: none
    Column("claim", Text),  # core.copy.rounds.Claim, of that
)
chunks = _table(  # key ranges of rounds
    "chunks",
    *_key(chunk=BigInteger),
    _required("round", Integer),
    _required("table_name", Text),  # schema.name
    _required("key_range", Text),  # core.copy.port.KeyRange
    _required("state", Word(ChunkState)),
    _required("epoch", Integer),
    _required("nonce", String(32)),
    Column("tried_ms", BigInteger),  # when the newest attempt was begun
    Column("low", String(100)),  # commit,row
    Column("high", String(100)),
    _required("rows", BigInteger),
    _required("files", Text),  # a list of core.copy.rounds.ChunkFile
    Column("read_ms", BigInteger),
    Index("ix_chunks_round", "pipeline", "round"),
)
source_looks = _table(  # of the connector, the source and the topic together: core.copy.complete.Look
    "source_looks",
    *_key(look=BigInteger),
    _required("position", String(100)),  # commit,row
    _required("log_end", String(100)),
    _required("at_ms", BigInteger),
    _required("ends", Text),  # offsets by Kafka partition
    _required("server", String(250)),  # empty: there is but one
    _required("reader", String(250)),  # the connector, or slot; empty: not known
    _required("gap", Integer),  # copies up to that one may lack what the connector left out; 0: none
)
