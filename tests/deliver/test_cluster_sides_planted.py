"""Each bug in how late and dirty tables are copied to another cluster is found by the test that is named here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deliver import test_cluster_sides as tests
from tests.deliver.planted import SIDE_BUGS
from tests.deliver.side_lab import HiveSides, Sides
from tests.mutants.planting import Planted

FOUND_BY: dict[str, Callable[[Sides], None]] = {
    "a batch is sent once": tests.test_late_and_dirty_rows_arrive_leave_and_move_on,
    "a newer version does not overtake a try": tests.test_a_version_that_is_overtaken_on_its_way_is_not_shown,
    "a later version's record is not looked for": tests.test_an_older_version_that_comes_late_is_refused,
    "parts that a version lacks stay": tests.test_late_and_dirty_rows_arrive_leave_and_move_on,
    "an hour does not wait for its rows to leave": tests.test_late_and_dirty_rows_arrive_leave_and_move_on,
    "a batch without a row is not there":
        tests.test_a_restored_ledger_does_not_take_a_batch_without_a_row_for_one_that_is_not_there,
}  # fmt: skip


@pytest.mark.parametrize("bug", SIDE_BUGS)
def test_a_planted_bug_is_found(bug: str, tmp_path: Path) -> None:
    with Planted(SIDE_BUGS[bug]) as planted:
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            FOUND_BY[bug](HiveSides(tmp_path))
        assert planted.never_called() == []
