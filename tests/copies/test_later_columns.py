"""A column that came after the newest copy: rows that have not changed since lack it, and nothing is told (S9')."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from tests.copies.test_complete import begun, told, world
from tests.copies.worlds import CopyWorld, copy_words
from tests.fakes.source_table import position
from tests.mirror.audits import Here
from tidegate.core.spec.pipeline import Column
from tidegate.ledger import schema_copies
from tidegate.workflow.copy.compare import Report, compare

__all__ = ["begun", "world"]  # how each test begins


def alters(world: CopyWorld) -> None:
    """ALTER TABLE ... ADD COLUMN shade DEFAULT 'grey', in the YAML as well; one row changes afterwards."""
    world.source_table.alter("shade", "grey")
    takes_up(world)


def takes_up(world: CopyWorld) -> None:
    """The YAML has the column; one row changes afterwards."""
    shade = Column(name="shade", type="string", path="$.shade")
    own = world.pipeline.columns
    world.change_spec(columns=(*own[:2], shade, *own[2:]))
    changes(world)


def changes(world: CopyWorld) -> None:
    world.source_table.set(1, "newer")
    world.deliver()
    world.delivered = world.source_table.end
    world.apply()


def compared(world: CopyWorld, fix: str = "") -> Report:
    try:
        return compare(world.context(), world.source_table, Here(), lambda: False, fix)
    finally:
        world.close()


def test_rows_that_lack_a_later_column_are_not_complete(world: CopyWorld) -> None:
    """No event says what they have in it: the connector has delivered everything, and they are older even so."""
    world.mirror()
    alters(world)
    assert told(world) is None
    assert "column shade came after copy 1: rows that have not changed since are null there" in copy_words(world)
    world.again()
    changes(world)
    assert told(world) is None, "the next copy is not whole"
    world.read()
    world.apply()
    found = told(world)
    assert found is not None
    assert found.position == position(world.delivered)
    assert "shade" not in copy_words(world)


def test_a_copy_that_began_before_the_column_does_not_have_it(world: CopyWorld) -> None:
    world.deliver()
    world.apply()
    world.read(go_on=lambda: False)
    alters(world)
    world.read()
    world.apply()
    assert told(world) is None
    assert "column shade came after copy 1" in copy_words(world)


def test_a_comparison_without_a_difference_makes_up_for_a_copy(world: CopyWorld) -> None:
    world.mirror()
    alters(world)
    found = compared(world)
    assert (found.differ, found.exact) == ({"other": 3}, True), "all but the row that has changed"
    changes(world)
    assert told(world) is None
    for key in range(2, 5):
        world.source_table.set(key, f"changed {key}")
    changes(world)
    assert (told(world), compared(world).differ) == (None, {})
    changes(world)
    assert told(world) is not None
    assert "shade" not in copy_words(world)


def test_a_comparison_of_some_keys_says_nothing_of_others(world: CopyWorld) -> None:
    world.mirror()
    alters(world)
    assert compare(world.context(), world.source_table, Here(), lambda: False, keys=("1", "1")).differ == {}
    world.close()
    changes(world)
    assert told(world) is None


def test_a_comparison_that_died_may_have_summed_rows_without_the_column(world: CopyWorld) -> None:
    """The source has got it between both tasks: what was equal before is read no more."""

    def dies() -> bool:
        raise KeyboardInterrupt

    world.mirror()
    takes_up(world)
    world.source_table.sneak(2, "other")
    world.source_table.end += 10  # what other tables have, and the connector has not: it waits for that
    with pytest.raises(KeyboardInterrupt):
        compare(world.context(), world.source_table, Here(), dies)
    world.close()
    world.source_table.alter("shade", "grey")
    world.source_table.set(2, "newest")
    changes(world)
    assert compared(world).differ == {}
    changes(world)
    assert told(world) is None, "row 3 lacks what the source has"


def test_what_a_comparison_puts_right_is_read(world: CopyWorld) -> None:
    world.mirror()
    alters(world)
    assert compared(world, "rows lack a column").mended
    changes(world)
    assert compared(world).differ == {}
    changes(world)
    assert told(world) is not None


def test_copies_of_a_ledger_before_say_nothing_of_columns(world: CopyWorld) -> None:
    world.mirror()
    with world.context().ledger.store.begin() as c:  # type: ignore[attr-defined]
        c.execute(update(schema_copies.copies).values(columns=None))
    alters(world)
    assert told(world) is not None
    assert "shade" not in copy_words(world)


def test_a_column_whose_name_is_no_plain_word_is_copied_and_merged(world: CopyWorld) -> None:
    world.source_table.alter("Order Date.1", "new year")
    own = world.pipeline.columns
    odd = Column(name="order_date", type="string", path='$."Order Date.1"')
    world.change_spec(columns=(*own[:2], odd, *own[2:]))
    world.source_table.set(1, "newer")
    world.mirror()
    table = world.opened()
    assert table is not None
    seen = table.scan(row_filter="_op != 'd'").to_arrow().select(["id", "order_date"]).to_pylist()
    assert {row["id"]: row["order_date"] for row in seen} == dict.fromkeys(world.source_table.rows, "new year")
    assert not compared(world).differ
