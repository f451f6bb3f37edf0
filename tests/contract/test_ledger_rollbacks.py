"""Rollbacks in the ledger, on SQLite and PostgreSQL: begun once, of generations that hold the same batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import create_engine, insert, update

from tests.contract.ledgers import NAME, WINDOW, now, open_ledger, url
from tidegate.core.base.errors import LostComparison
from tidegate.core.files.receipt import DATA, LATE
from tidegate.core.replay.rollback import ROLLBACK, Known, Origin
from tidegate.core.window.states import REPLAY
from tidegate.ledger import schema
from tidegate.ledger.sql import SqlLedger

__all__ = ["now", "open_ledger", "url"]
g, x = schema.generations, schema.generation_batches


@pytest.fixture
def ledger(open_ledger: Callable[[], SqlLedger], url: str) -> SqlLedger:
    """Generation 1 holds batch 1, 2 batches 1 and 3 (late, their files have left); 3 holds the same and is in force."""
    made = open_ledger()
    where = {"pipeline": NAME, "window_ms": WINDOW.start_ms}
    common = {"epoch": 1, "nonce": "n", "kind": "replay"}
    engine = create_engine(url)
    with engine.begin() as c:
        closed = {"start_ms": WINDOW.start_ms, "end_ms": WINDOW.end_ms, "state": "CLOSED", "closing_batch": 2}
        c.execute(insert(schema.windows).values(pipeline=NAME, **closed))
        for number, state in ((1, "RETIRED"), (2, "RETIRED"), (3, "CURRENT"), (4, "DISCARDED")):
            retired = number * 10 if state == "RETIRED" else None
            c.execute(insert(g).values(**where, number=number, state=state, retired_ms=retired, **common))
            c.execute(insert(x).values(**where, number=number, batch_id=1, kind=DATA, cleared=False))
            if number > 1:
                c.execute(insert(x).values(**where, number=number, batch_id=3, kind=LATE, cleared=True))
    engine.dispose()
    return made


def test_it_begins_beside_the_one_in_force(ledger: SqlLedger) -> None:
    assert ledger.rollbacks.begin(NAME, WINDOW, 3, 2, "a reason") == 5
    begun = ledger.windows.generation(NAME, WINDOW, 5)
    assert (begun.state, begun.kind, begun.batches, begun.late) == ("BUILDING", ROLLBACK, (1, 3), (3,))
    assert ledger.rollbacks.of(NAME, WINDOW, 5) == Origin(2, "a reason")
    assert ledger.rollbacks.of(NAME, WINDOW, 3) is None
    assert ledger.rollbacks.of(NAME, WINDOW, 9) is None
    assert ledger.reopenings.duties(NAME) == []  # late files that have left do not leave again
    with pytest.raises(LostComparison, match="not the newest"):
        ledger.rollbacks.begin(NAME, WINDOW, 3, 2, "twice")


def test_what_has_moved_on_is_compared(ledger: SqlLedger, url: str) -> None:
    for current, origin in ((2, 1), (3, 1), (3, 3), (3, 4), (3, 7)):
        with pytest.raises(LostComparison):
            ledger.rollbacks.begin(NAME, WINDOW, current, origin, "")
    engine = create_engine(url)
    with engine.begin() as c:
        c.execute(update(g).where(g.c.number == 2).values(cleaned_ms=1))
    engine.dispose()
    with pytest.raises(LostComparison, match="cannot be brought back any more"):
        ledger.rollbacks.begin(NAME, WINDOW, 3, 2, "")
    assert ledger.windows.get(NAME, WINDOW).newest == 3


def test_all_generations_of_a_window(ledger: SqlLedger) -> None:
    assert ledger.rollbacks.generations(NAME, WINDOW) == [
        Known(1, "RETIRED", 10, None, (1,), kind=REPLAY),
        Known(2, "RETIRED", 20, None, (1, 3), (3,), kind=REPLAY),
        Known(3, "CURRENT", None, None, (1, 3), (3,), kind=REPLAY),
        Known(4, "DISCARDED", None, None, (1, 3), (3,), kind=REPLAY),
    ]
