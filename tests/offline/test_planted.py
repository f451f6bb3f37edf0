"""Each bug in how a table is read is found by the test that is named here, which passes without it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.planting import Planted
from tests.offline import test_by_column, test_life, test_real, test_reread
from tests.offline.planted import OFFLINE_BUGS
from tests.offline.test_life import world
from tests.offline.test_reread import day_zero
from tidegate.core.base.errors import TidegateError

__all__ = ["day_zero", "world"]  # fixtures

FOUND_BY: dict[str, Callable[..., None]] = {
    "bounds are in two chunks": test_real.test_chunks_of_a_whole_table,
    "bounds are in no chunk": test_life.test_a_day_is_one_reading,
    "the last chunk is left out": test_life.test_a_day_is_one_reading,
    "the last chunk is left out, and nobody looks": test_life.test_a_day_is_one_reading,
    "the overlap is dropped": test_by_column.test_an_overlap_takes_up_what_came_late,
    "a window goes on for an hour": test_by_column.test_a_window_has_what_changed_in_it,
    "a window is read before its delay": test_life.test_a_day_is_one_reading,
    "days that were missed are left out": test_life.test_days_that_were_missed_are_read_one_after_the_other,
    "half of the chunks are read": test_life.test_a_day_is_one_reading,
    "half of the chunks are a window": test_life.test_a_day_is_one_reading,
    "rows say how far a table is read": test_life.test_an_empty_table_is_an_empty_window,
    "a second reading must be the first": test_life.test_a_second_complete_reading_is_not_compared_with_the_first,
    "the database's clock is not asked": test_life.test_a_window_that_goes_on_by_the_databases_clock_is_waited_for,
    "a table may be altered while it is read": test_real.test_a_table_that_is_altered_while_it_is_read_is_read_again,
    "a rebuild owes what the first reading had": test_reread.test_what_follows_goes_by_the_reading_in_force,
    "dirty rows of the first reading do not matter": test_reread.test_dirty_rows_of_the_first_reading_refuse_it,
    "rows that do not fit are left out": test_reread.test_rows_that_do_not_fit_refuse_it,
    "a rollback is of the reading before it": test_reread.test_what_follows_goes_by_the_reading_in_force,
    "a replay goes on with a second reading": test_reread.test_a_replay_gives_up_a_second_reading_that_died,
    "the audit owes the first reading": test_reread.test_a_second_reading_is_the_next_generation_and_says_so,
    "numbers lose digits on their way": test_real.test_values_arrive_as_they_are,
}


@pytest.mark.parametrize("name", OFFLINE_BUGS)
def test_a_planted_bug_is_found(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    found_by = FOUND_BY[name]
    given = {p: _given(p, found_by, tmp_path, request) for p in inspect.signature(found_by).parameters}
    with Planted(OFFLINE_BUGS[name]) as planted:
        with pytest.raises((AssertionError, TidegateError, pytest.fail.Exception)):
            found_by(**given)
        assert planted.never_called() == []


def _given(name: str, test: Callable[..., None], tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """What the test's fixture of that name would be; a real server is PostgreSQL."""
    if test.__module__ != test_real.__name__ or name not in ("server", "world"):
        return request.getfixturevalue(name)
    server = request.getfixturevalue("postgresql")
    server.run("DROP TABLE IF EXISTS shop.t CASCADE")
    return server if name == "server" else test_real.TableWorld(tmp_path, server=server)
