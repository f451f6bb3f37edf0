"""The comparison's DAG takes a part of the keys each time, and goes on behind it."""

from __future__ import annotations

from pathlib import Path

from tests.copies.worlds import COPYING, CopyWorld
from tests.mirror.audits import Here
from tidegate.workflow.copy.compare import compare
from tidegate.workflow.copy.copy import to_compare
from tidegate.workflow.copy.narrow import next_keys


def test_a_run_compares_the_rows_behind_those_of_the_run_before(tmp_path: Path) -> None:
    """Round and round; what people compare in between is no part of it, nor a comparison that died."""
    made = COPYING.replace("chunk_rows: 3", 'chunk_rows: 3, compare: "0 3 * * 0", compare_rows: 5')
    world = CopyWorld(tmp_path, made)
    source = world.source_table
    source.rows = {key: f"old {key}" for key in range(1, 13)}
    source.set(3, "first event")
    world.mirror()

    def a_run() -> tuple[str, str]:
        keys = next_keys(world.context(), source)
        assert keys is not None
        compare(world.context(), source, Here(), lambda: False, "", keys)
        world.close()
        return keys

    least, most = str(-(2**63) + 1), str(2**63 - 1)
    assert a_run() == (least, "5")
    compare(world.context(), source, Here(), lambda: False, "", ("8", "9"))
    to_compare(world.context(), source, ("6", "10"))
    world.close()
    source.rows |= {0: "behind", 20: "before"}
    assert a_run() == ("6", "10")
    assert a_run() == ("11", most)
    assert a_run() == (least, "4"), "five rows again"
    assert a_run() == ("5", "9")


def test_a_run_that_died_goes_on_with_its_keys_whatever_has_changed_since(tmp_path: Path) -> None:
    made = COPYING.replace("chunk_rows: 3", 'chunk_rows: 3, compare: "0 3 * * 0", compare_rows: 5')
    world = CopyWorld(tmp_path, made)
    source = world.source_table
    source.rows = {key: f"old {key}" for key in range(1, 13)}
    source.set(3, "first event")
    world.mirror()
    for missing, first, until in ((2, str(-(2**63) + 1), "5"), (8, "6", "10")):
        keys = next_keys(world.context(), source)
        assert keys == (first, until)
        begun = to_compare(world.context(), source, keys)
        world.close()
        source.set(missing, None)
        assert next_keys(world.context(), source) == keys, "and not one row more"
        found = compare(world.context(), source, Here(), lambda: False, "", keys)
        world.close()
        assert found.round == begun.number
