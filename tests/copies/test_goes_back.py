"""M8 where a copy has read the keys: a log that begins anew is refused, whatever stands for them; a connector that lags
behind a copy, or sends again, is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.copies.worlds import COPYING, CopyWorld
from tests.mirror.worlds import event
from tidegate.core.base.errors import BatchRefused
from tidegate.core.batch.refusal import RefusalKind

FIRST = 1_000
"""The log's end before the copy."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    """Keys 1 to 9 are copied; key 3 has changed since."""
    made = CopyWorld(tmp_path, COPYING.replace("buckets: 3", "buckets: 1"))
    source = made.source_table
    source.rows, source.end = {key: f"old {key}" for key in range(1, 10)}, FIRST
    made.land(event(3, "first", FIRST, ms=10_000))
    source.rows[3] = "first"
    made.apply()
    made.read()
    made.apply()
    made.land(event(3, "second", FIRST + 50, ms=11_000))
    source.rows[3] = "second"
    made.apply()
    assert made.rows() == source.rows
    yield made
    made.close()


@pytest.mark.parametrize(
    ("key", "word"),
    [(42, "new"), (5, "changed"), (5, None)],
    ids=["a new key", "a key that was copied", "a delete of one"],
)
def test_another_log_is_refused(world: CopyWorld, key: int, word: str | None) -> None:
    """Its positions are below what the copy has seen: without the rule the event would be taken for an older one."""
    before = world.rows()
    world.land(event(key, word, 40, ms=12_000))
    with pytest.raises(
        BatchRefused, match=f"positions go back: id={key} at .* the table's row from readings"
    ) as refused:
        world.apply()
    assert refused.value.kind == RefusalKind.GOES_BACK
    assert world.rows() == before
    world.apply(conflicts="it was a clock that was wrong")
    assert world.rows() == before


def test_it_is_seen_inside_of_one_merge(world: CopyWorld) -> None:
    world.land(event(7, "later", FIRST + 60, ms=12_000), event(42, "lost", 40, ms=13_000))
    with pytest.raises(BatchRefused, match="positions go back: id=42 at .* an event from readings, partition 0"):
        world.apply()


def test_what_a_connector_sends_again_is_welcome(world: CopyWorld) -> None:
    """A row that was there before the copy, and went before it: its events have their old times."""
    world.land(event(42, "gone", FIRST - 20, ms=9_000), event(42, None, FIRST - 10, ms=9_500))
    world.apply()
    world.land(event(5, "older", FIRST - 5, ms=9_700))
    world.apply()
    assert world.rows() == world.source_table.rows


def test_a_connector_that_lags_behind_the_copy_is_welcome(tmp_path: Path) -> None:
    """What it brings is news to the table by its time, and older than what was read; positions grow all the same."""
    made = CopyWorld(tmp_path, COPYING.replace("buckets: 3", "buckets: 1"))
    source = made.source_table
    source.rows, source.end = {key: f"now {key}" for key in range(1, 10)}, FIRST
    made.land(event(3, "first", 500, ms=10_000))
    made.apply()
    made.read()
    made.apply()
    for n in range(10):
        made.land(event(5, f"{n}", 600 + 20 * n, ms=11_000 + n), event(42, f"{n}", 610 + 20 * n, ms=11_000 + n))
    made.land(event(42, None, 900, ms=12_000))
    made.apply()
    assert made.rows() == source.rows
    made.close()
