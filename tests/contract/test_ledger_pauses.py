"""Pauses on purpose in the ledger, on SQLite and PostgreSQL: each change compares what was read."""

from __future__ import annotations

import pytest

from tests.contract.ledgers import NAME, ledger, now, open_ledger, planned, url  # noqa: F401 (fixtures)
from tidegate.core.base.errors import LostComparison, StepMissing


def test_a_pause_from_beginning_to_end(ledger, now) -> None:  # noqa: F811
    pauses = ledger.pauses
    with pytest.raises(StepMissing, match="does not know nothing"):
        pauses.pause("nothing", ["ingest"], "why", None, None)
    planned(ledger)
    assert pauses.standing(NAME) is None
    first = pauses.pause(NAME, ["archive", "ingest"], "a reason", now[0] + 5, None)
    assert (first.kinds, first.why, first.since_ms, first.until_ms) == (
        ("ingest", "archive"), "a reason", now[0], now[0] + 5,
    )  # fmt: skip
    assert pauses.standing(NAME) == first
    assert not first.over(now[0] + 4)
    assert first.over(now[0] + 5)
    since = now[0]
    now[0] += 60_000
    more = pauses.pause(NAME, ["maintain"], "another", None, first)
    assert (more.kinds, more.why, more.since_ms) == (("ingest", "archive", "maintain"), "another", since)
    left = pauses.unpause(NAME, ["archive", "replay"], more)
    assert left is not None
    assert (left.kinds, left.why, left.since_ms, left.by) == (("ingest", "maintain"), "another", since, more.by)
    assert pauses.unpause(NAME, ["ingest", "archive", "maintain"], left) is None
    assert pauses.standing(NAME) is None
    again = pauses.pause(NAME, ["ingest"], "again", None, None)
    assert again.since_ms == now[0], "another pause has a beginning of its own"


def test_of_two_that_read_the_same_one_changes(ledger, open_ledger) -> None:  # noqa: F811
    planned(ledger)
    first = ledger.pauses.pause(NAME, ["ingest"], "first", None, None)
    with pytest.raises(LostComparison):
        open_ledger().pauses.pause(NAME, ["ingest"], "second", None, None)
    ledger.pauses.unpause(NAME, ["ingest"], first)
    with pytest.raises(LostComparison):
        open_ledger().pauses.unpause(NAME, ["ingest"], first)
    with pytest.raises(LostComparison):
        open_ledger().pauses.pause(NAME, ["ingest"], "second", None, first)
