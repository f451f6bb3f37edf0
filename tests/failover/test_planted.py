"""Each bug in how a source fails over is found by the test that is named here, which passes without it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.failover import (
    test_behind,
    test_ledger_loss,
    test_pair,
    test_rare_traces,
    test_refusals,
    test_strays,
    test_there_and_back,
)
from tests.failover.planted import FAILOVER_BUGS
from tests.failover.sites import TwoSites
from tests.failover.test_refusals import CASES
from tests.mutants.planting import Planted
from tidegate.core.base.errors import TidegateError


def _refused(happens: Callable) -> Callable[..., None]:
    kind, words = next((kind, words) for case, kind, words in CASES if case is happens)
    return partial(test_refusals.test_it_is_refused_by_name, happens=happens, kind=kind, words=words)


def _counted(found_by: Callable, **more: Any) -> Callable[..., None]:
    def test(world: TwoSites, monkeypatch: pytest.MonkeyPatch) -> None:
        found_by(test_pair.without_headers(world, monkeypatch), **more)

    return test


def _strays(found_by: Callable) -> Callable[..., None]:
    def test(tmp_path: Path) -> None:
        folder = tmp_path / "three"
        folder.mkdir()
        world = test_strays.behind_the_mark(folder)
        try:
            found_by(world)
        finally:
            world.close()

    return test


FOUND_BY: dict[str, Callable[..., None]] = {
    "records without coordinates are new ones": _refused(test_refusals.without_coordinates),
    "copies behind the mark are records": test_behind.test_what_never_crossed_is_not_read_where_a_copier_brings_it_late,
    "a redrive takes copies for records": test_behind.test_a_redrive_leaves_them_where_they_are,
    "a hole is read over": _refused(test_refusals.a_hole),
    "repeats are read": test_there_and_back.test_repeats_are_not_read,
    "the walk begins too far": test_refusals.test_of_a_long_copy_the_end_alone_is_walked,
    "copies that landed are read again": test_there_and_back.test_reading_goes_on_where_the_first_site_ended,
    "a range does not end at a stretch": test_there_and_back.test_repeats_are_not_read,
    "a pair is believed": _counted(
        test_pair.test_a_copier_that_is_not_exact, copies=test_pair.again,
        words="the record at 4 landed with timestamp 3, its copy at 3 has 2; 2 of 5 rows differ",
    ),
    "an overlap may fit in another place too": _counted(test_pair.test_equal_timestamps_prove_nothing),
    "each offset counts as a record": _counted(test_pair.test_reading_goes_on_where_the_first_site_ended),
    "any pair on the way back": _counted(test_pair.test_another_pair_on_the_way_back),
    "what crossed is counted, not measured": _counted(test_pair.test_there_and_back),
    "what crossed is measured, not compared":
        _counted(test_pair.test_what_crossed_is_compared_with_what_the_first_site_has),
    "copies of copies behind the mark are records": _strays(test_strays.test_its_copier_says_what_was_a_copy_before),
    "what nobody can say is a record": _strays(test_strays.test_where_nothing_says_it_the_failover_is_refused),
    "the log of the site that is left is not asked":
        _strays(test_strays.test_the_log_of_the_site_that_is_left_says_it),
    "what was copied back is a copy that came late":
        test_refusals.test_an_end_is_not_noted_once_something_was_copied_back,
    "a copy that came late was copied back": test_behind.test_a_site_where_they_have_not_landed_comes_back,
    "nobody has to stop the copier": test_refusals.test_nobody_says_that_copying_has_stopped,
    "copies behind the mark are not looked for": test_refusals.test_a_copy_behind_the_mark_is_refused,
    "a log that was cut while it was away is as it was":
        partial(test_rare_traces.test_a_site_that_returns_with_its_log_cut_is_refused, noted=True),
    "a cut that was skipped is forgotten":
        test_rare_traces.test_a_site_whose_log_was_cut_and_skipped_is_refused_as_one_that_was_read_again,
    "what takes the offsets of copies is a copy": test_rare_traces.test_where_the_log_was_cut_stretches_of_copies_end,
    "an open batch counts as landed": test_there_and_back.test_an_open_batch_is_planned_again_at_the_other_site,
    "a switch compares no version": test_there_and_back.test_a_batch_between_plan_and_run_is_noticed,
    "the open batch stays": test_there_and_back.test_an_open_batch_is_planned_again_at_the_other_site,
    "storage is not asked about the open batch": test_refusals.test_an_open_batch_that_has_landed_is_refused,
    "storage is not asked about switches":
        test_ledger_loss.test_a_batch_of_the_first_site_is_not_sealed_behind_a_lost_switch,
    "a lost switch comes back whatever has landed since":
        test_ledger_loss.test_a_site_that_was_read_on_behind_a_lost_switch_is_refused,
    "any site may plan": test_there_and_back.test_a_site_that_is_not_active_plans_nothing,
    "what crossed is read where it came from too":
        test_there_and_back.test_what_never_crossed_is_named_and_settled_when_the_first_site_returns,
    "back before all copies have landed": test_refusals.test_not_back_before_all_copies_have_landed,
    "a site's own records are taken for copies":
        test_there_and_back.test_what_never_crossed_is_named_and_settled_when_the_first_site_returns,
    "a site that returns is taken for a new one": test_refusals.test_not_back_before_the_end_is_noted,
}  # fmt: skip


@pytest.mark.parametrize("bug", FAILOVER_BUGS)
def test_a_planted_bug_is_found(bug: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    found_by, world = FOUND_BY[bug], TwoSites(tmp_path)
    known: dict[str, Any] = {"world": world}
    free = [p for p, told in inspect.signature(found_by).parameters.items() if told.default is inspect.Parameter.empty]
    given = {p: known[p] if p in known else request.getfixturevalue(p) for p in free}
    with Planted(FAILOVER_BUGS[bug]) as planted:
        with pytest.raises((AssertionError, TidegateError, pytest.fail.Exception)):
            found_by(**given)
        assert planted.never_called() == []
    world.close()
