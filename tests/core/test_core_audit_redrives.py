"""The audit's sums where dirty rows were redriven."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_core_audit import ONE, SPINE, TWO, batch, look, span, words

from tidegate.core.files.balance import Balance
from tidegate.core.look.views import (
    BatchRow,
)

# ---------------------------------------------------------------- redrives


def redrive_of(first: BatchRow, state: str = "LANDED", **more: object) -> BatchRow:
    """Batch 3 took up the dirty row of batch 1; it is filtered now."""
    values: dict[str, object] = {"kind": "redrive", "sources": (1,), "state": state, "log_starts": {}}
    return batch(3, (span(0, 7, 9, read=1, gaps=1, filtered=1),), {}, **(values | more))


def test_a_redrive_counts_its_rows_instead_of_the_batch_that_had_them() -> None:
    spine = replace(SPINE, next_batch_id=4, states={"LANDED": 3})
    found, totals = look((replace(ONE, redriven_by=3), TWO, redrive_of(ONE)), spine=spine)
    assert found == []
    assert totals.balance == Balance(offsets=17, read=16, gaps=1, data=13, late=1, dirty=0, filtered=2)
    assert (totals.abandoned, totals.unfinished) == (0, 0)


@pytest.mark.parametrize("state", ["ABANDONED", "WRITING"])
def test_a_redrive_that_has_not_landed_has_nothing(state: str) -> None:
    spine = replace(SPINE, next_batch_id=4, states={"LANDED": 2, state: 1}, unlanded={3: state})
    found, totals = look((ONE, TWO, redrive_of(ONE, state)), spine=spine)
    assert (found, totals.abandoned, totals.unfinished) == ([], 0, 0)
    assert totals.balance == look()[1].balance


def test_a_redrive_has_no_planned_ends() -> None:
    spine = replace(SPINE, next_batch_id=4, states={"LANDED": 3})
    batches = (replace(ONE, redriven_by=3), TWO, replace(redrive_of(ONE), ends={0: 9}))
    assert words(batches=batches, spine=spine) == ["batch 3: it is a redrive, but has planned ends"]
    alone = words(batches=(ONE, TWO, redrive_of(ONE)), spine=spine)
    assert alone[0] == "batch 3: it took up the dirty rows of batch 1, which are not its own"


def test_what_has_landed_when_the_audit_begins() -> None:
    assert [SPINE.landed(i) for i in range(-1, 5)] == [False, False, True, True, False, False]
    assert not replace(SPINE, unlanded={2: "SEALED"}).landed(2)
