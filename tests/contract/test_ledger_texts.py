"""Texts that a database does not take as they are, on SQLite and PostgreSQL: NUL, halves of surrogate pairs."""

from __future__ import annotations

import json

import pytest
import sqlalchemy
from sqlalchemy import select, update

from tests.contract.ledgers import NAME, WINDOW, closed, ledger, now, open_ledger, planned, url
from tidegate.core.base.errors import LedgerError, LostComparison, UnknownWord
from tidegate.core.batch.refusal import Refusal, RefusalKind
from tidegate.core.batch.states import BatchKind, BatchState
from tidegate.ledger import SqlLedger, schema
from tidegate.ledger.reads import SqlReads
from tidegate.ledger.texts import String, Text, storable
from tidegate.ledger.waits import SqlWaits

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures

ODD = 'unknown field "\x00x\ud800y", \U0001f30a \\u0000 C:\\temp'
SEEN = 'unknown field "\\u0000x\\ud800y", \U0001f30a \\u0000 C:\\temp'


def test_a_refusal_with_such_a_text_is_stored_and_compared(ledger: SqlLedger) -> None:
    writing = ledger.batches.take(planned(ledger), "n1")
    ledger.batches.refuse(writing, Refusal(kind=RefusalKind.DIRTY_LIMIT, said=ODD))
    refused = ledger.batches.refusal(NAME, 1)
    assert refused is not None
    assert refused.said == SEEN
    with pytest.raises(LostComparison):
        ledger.repairs.release(NAME, 1, "another refusal", "why")
    ledger.repairs.release(NAME, 1, ODD, "NUL\x00 is fine")
    assert ledger.batches.refusal(NAME, 1) is None
    assert ledger.repairs.released(NAME, 1) == "test: NUL\\u0000 is fine"


def test_a_block_is_cleared_by_what_was_read_or_by_what_was_said(ledger: SqlLedger) -> None:
    closed(ledger)
    for reason in (SEEN, ODD):
        ledger.windows.block(NAME, WINDOW, ODD)
        assert [b.reason for b in ledger.pipelines.blocks(NAME)] == [SEEN]
        ledger.repairs.clear_window(NAME, WINDOW, reason, "why")
        assert ledger.pipelines.blocks(NAME) == []


def test_json_in_the_ledger_comes_back_as_what_it_was(ledger: SqlLedger) -> None:
    ledger.actor = "nina\x00" + "x" * 600
    writing = ledger.batches.take(planned(ledger), "n1")
    ledger.batches.refuse(writing, Refusal(kind=RefusalKind.DIRTY_LIMIT, said=ODD))
    e = schema.events
    with ledger.store.begin() as c:
        row = c.execute(select(e).where(e.c.what == "refused")).one()
    assert json.loads(row.detail) == {"reason": ODD, "kind": "dirty_limit"}
    assert row.actor.startswith("nina\\u0000x")
    assert len(row.actor) == 500


def test_every_text_column_is_such_a_one() -> None:
    columns = [c for table in schema.metadata.tables.values() for c in table.columns]
    assert sum(isinstance(c.type, String | Text) for c in columns) > 60
    assert [str(c) for c in columns if isinstance(c.type, sqlalchemy.String)] == []


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("as it is: \t\r\n\x01\x7f\u2028", "as it is: \t\r\n\x01\x7f\u2028"),
        ("a\x00b", "a\\u0000b"),
        ("\ude00\ud83d", "\\ude00\\ud83d"),
        ("\ud83d\ude00", "\U0001f600"),  # two halves that meet are one character, in JSON too
    ],
)
def test_what_is_stored(text: str, stored: str) -> None:
    assert storable(text) == stored
    assert storable(stored) == stored
    assert json.loads(storable(json.dumps(text, ensure_ascii=False))) == (stored if len(stored) == 1 else text)


def test_words_that_only_a_newer_release_knows(ledger: SqlLedger) -> None:
    """States and kinds are members of core's enums wherever they come from, and anything else is refused by name."""
    closed(ledger)
    batch = SqlReads(ledger.store).batch(NAME, 1)[0]
    assert batch is not None
    assert [type(x) for x in (batch.state, batch.kind)] == [BatchState, BatchKind]

    def put(statement: str) -> None:
        with ledger.store.begin() as c:
            c.exec_driver_sql(statement)

    put("UPDATE batches SET refused = 'odd', refused_kind = 'too_new'")
    refused = ledger.batches.refusal(NAME, 1)
    assert refused is not None
    assert (refused.kind, refused.is_releasable) == (RefusalKind.OTHER, False)
    put("UPDATE windows SET state = 'PARTED'")
    with pytest.raises(UnknownWord, match="^'PARTED' is no WindowState of this release, which knows OPEN, CLOSING"):
        ledger.windows.get(NAME, WINDOW)
    with pytest.raises(UnknownWord, match="'PARTED'"):
        SqlWaits(ledger.store.engine).look([NAME], [(NAME, WINDOW.start_ms)])
    put("UPDATE batches SET state = 'SPLIT'")
    for look in (
        lambda: ledger.batches.get(NAME, 1),
        lambda: SqlReads(ledger.store).batch(NAME, 1),
        lambda: SqlReads(ledger.store).progress([NAME], 0),
    ):
        with pytest.raises(UnknownWord, match="'SPLIT' is no BatchState .* which knows PLANNED, WRITING"):
            look()


def test_no_other_word_is_written_or_asked_for(ledger: SqlLedger) -> None:
    b = schema.batches
    for statement in (select(b).where(b.c.state == "LANDET"), update(b).values(kind="inject")):
        with pytest.raises(LedgerError, match="is not a valid Batch"), ledger.store.begin() as c:
            c.execute(statement)
