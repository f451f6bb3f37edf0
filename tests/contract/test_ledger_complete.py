"""What a table says of copies, and looks at its connector, in the ledger (S8, S10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.ledgers import NAME, landed, ledger, manifest, now, open_ledger, planned, url
from tidegate.core.base.errors import LostComparison
from tidegate.core.copy.complete import Look
from tidegate.core.files.receipt import DIRTY
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.copied import Copied, RoundIn
from tidegate.ledger import SqlLedger

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures

LOW, HIGH = (2**50, 3), (2**50 + 7, 0)

# ---------------------------------------------------------------- looks at the connector (S10)


def look(n: int, number: int) -> Look:
    place, end = (2**50 + n, 1), (2**50 + n, 9)
    ends = {0: n, 11: 2**40}
    return Look(position=place, log_end=end, at_ms=2**41 + n, ends=ends, reader="shop", gap=n, number=number)


def test_s10_looks_are_kept_in_their_order(ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.ledger.copies.LOOKS_KEPT", 3)
    assert list(ledger.copies.looks(NAME)) == []
    for number, n in enumerate((5, 1, 3), 1):
        ledger.copies.looked(NAME, look(n, number))
    assert list(ledger.copies.looks(NAME)) == [look(5, 1), look(1, 2), look(3, 3)]
    ledger.copies.looked("another", look(9, 1))
    with pytest.raises(LostComparison):
        ledger.copies.looked(NAME, look(4, 3))  # another task has looked meanwhile
    ledger.copies.looked(NAME, look(4, 4))
    assert list(ledger.copies.looks(NAME)) == [look(1, 2), look(3, 3), look(4, 4)], "the oldest one is forgotten"
    assert list(ledger.copies.looks("another")) == [look(9, 1)]


def test_s10_the_newest_look_of_each_server(ledger: SqlLedger) -> None:
    assert ledger.copies.newest_looks(NAME) == {}
    of_a, of_b = (replace(look(n, n), server=name) for n, name in enumerate("ab", 1))
    later = replace(look(1, 3), server="a")
    for one in (of_a, of_b, later):
        ledger.copies.looked(NAME, one)
    ledger.copies.looked("another", look(9, 1))
    assert ledger.copies.newest_looks(NAME) == {"a": later, "b": of_b}
    assert ledger.copies.newest_looks("another") == {"": look(9, 1)}


def test_s10_how_far_batches_have_read_each_partition(ledger: SqlLedger) -> None:
    assert ledger.copies.merged_ends(NAME, 9) == {}
    landed(ledger)
    landed(ledger, 2, 5, 9)
    planned(ledger, 3, 9, 12)
    assert ledger.copies.merged_ends(NAME, 0) == {}
    assert ledger.copies.merged_ends(NAME, 1) == {0: 5, 1: 0}
    assert ledger.copies.merged_ends(NAME, 3) == {0: 9, 1: 0}, "what has not landed is read by nobody yet"
    assert ledger.copies.merged_ends("another", 9) == {}


def test_s10_nothing_is_complete_once_records_were_given_up(ledger: SqlLedger) -> None:
    landed(ledger)
    ledger.batches.abandon(planned(ledger, 2, 5, 9), "lost")
    landed(ledger, 3, 9, 12)
    assert ledger.copies.merged_ends(NAME, 1) == {0: 5, 1: 0}
    assert ledger.copies.merged_ends(NAME, 2) == ledger.copies.merged_ends(NAME, 3) == {}


def test_s10_nothing_is_complete_while_rows_are_dirty(ledger: SqlLedger) -> None:
    writing = ledger.batches.take(planned(ledger), "n1")
    receipt = manifest(writing)
    dirty = replace(receipt.files[0], kind=DIRTY, path="dirty/part-0", window_ms=None, values=())
    found = replace(receipt.ranges[0], read=8, dirty=4)
    ledger.batches.land(ledger.batches.seal(writing, replace(receipt, ranges=(found,), files=(*receipt.files, dirty))))
    assert ledger.copies.merged_ends(NAME, 1) == {}


# ---------------------------------------------------------------- what the table says of them (S8)

TOLD = Told(upto=2, snapshot="11", attempt="1-2.1-aa", rows=2, events=3, inserted=3)
COPIED = Copied(
    (RoundIn(1, (*LOW, 1), (*HIGH, 1), ((1, 3), (5, 5)), True), RoundIn(2, (*LOW, 2), (*LOW, 2), ((6, 6),))), (*HIGH, 0)
)
FURTHER: list[dict[str, Any]] = [
    {"copied": COPIED},
    {"begins": (2**50, 1, 0)},
    {"last_position": (2**50, 9, 0)},
    {"copied": COPIED, "begins": (1, 0, 0), "last_position": (2**50, 9, 0)},
]


@pytest.mark.parametrize("further", FURTHER, ids=lambda f: "+".join(f))
def test_s8_what_a_table_says_of_copies_is_copied_and_compared(ledger: SqlLedger, further: dict[str, Any]) -> None:
    full = replace(TOLD, **further)
    ledger.applies.stands(NAME, None, TOLD)
    with pytest.raises(LostComparison):
        ledger.applies.stands(NAME, full, replace(full, snapshot="12"))
    ledger.applies.stands(NAME, TOLD, full)
    assert ledger.applies.told(NAME) == full
    with pytest.raises(LostComparison):
        ledger.applies.stands(NAME, TOLD, replace(TOLD, snapshot="12"))
    ledger.applies.stands(NAME, full, TOLD)
    assert ledger.applies.told(NAME) == TOLD, "as of a table that was taken back"
