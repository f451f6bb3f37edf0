"""Two things that are said of a key at one position: a key that became an equal one; an event that is read otherwise
when it comes again."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.mirror import worlds
from tests.mirror.worlds import YAML, MirrorWorld
from tests.world import T0
from tidegate.core.base.errors import BatchRefused
from tidegate.core.spec.pipeline import Column

DECIMALS = YAML.replace("{{name: id, type: bigint", '{{name: id, type: "decimal(12,2)", convert: text')
"""PostgreSQL's `numeric` without a scale keeps the digits that it was given; for its primary key 1.0 is 1.00."""


def event(op: str, key: str, word: str | None, lsn: int) -> tuple[bytes, bytes]:
    """(key, value) as PostgreSQL's connector makes it, with `decimal.handling.mode=string`."""
    source: dict[str, Any] = {"connector": "postgresql", "sequence": '["10","0"]', "lsn": lsn, "snapshot": "false"}
    after = None if op == "d" else {"id": key, "word": word}
    value = {"op": op, "source": source, "before": None, "after": after, "ts_ms": T0}
    return json.dumps({"id": key}).encode(), json.dumps(value).encode()


FIRST, GONE, CAME = event("c", "1.0", "a", 20), event("d", "1.0", None, 30), event("c", "1.00", "b", 30)


@pytest.mark.parametrize("order", list(permutations((FIRST, GONE, CAME))))
def test_a_key_that_became_an_equal_one_keeps_its_row(tmp_path: Path, order: tuple[tuple[bytes, bytes], ...]) -> None:
    """Both events have other bytes for a key, hence may lie in other partitions: they land in any order."""
    world = MirrorWorld(tmp_path, DECIMALS)
    for partition, one in enumerate(order[:2]):
        world.land(one, partition=partition)
        world.apply()
    world.land(order[2], partition=1)
    world.land(*order, partition=0)  # and once more
    world.apply()
    assert world.rows() == {Decimal("1.00"): "b"}
    world.close()


def test_the_row_that_came_is_the_newer_one(tmp_path: Path) -> None:
    """A later delete takes it, one that comes again does not."""
    world = MirrorWorld(tmp_path, DECIMALS)
    world.land(FIRST, GONE, CAME)
    world.apply()
    world.land(GONE)
    world.apply()
    assert world.rows() == {Decimal("1.00"): "b"}
    world.land(event("d", "1.00", None, 40))
    world.apply()
    assert world.rows() == {}
    world.close()


def test_an_event_that_comes_again_with_a_new_column_is_refused_in_words(tmp_path: Path) -> None:
    """`unknown_fields: ignore` has left the column out of the row. Nobody has set up a server anew."""
    world = MirrorWorld(tmp_path)
    again = worlds.event(1, "a", 10, more={"extra": "x"})
    world.land(again)
    world.apply()
    named = world.pipeline.columns
    world.change_spec(columns=(*named[:2], Column(name="extra", type="string", path="$.extra"), *named[2:]))
    world.land(again)
    with pytest.raises(BatchRefused, match="added, or is read otherwise, since the first of both had landed"):
        world.apply()
    world.land(worlds.event(1, "b", 20, more={"extra": "y"}))
    world.apply(again=True, conflicts="a column was added")
    assert world.rows() == {1: "b"}
    world.close()
