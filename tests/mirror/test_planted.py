"""Each bug in the workflow of a mirror is found by the test that is named here, which passes without it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mirror import (
    test_applied,
    test_bad_keys,
    test_changes,
    test_cleaning,
    test_commands,
    test_days_conflicts,
    test_days_purge,
    test_days_where,
    test_goes_back,
    test_life,
    test_purge,
    test_recut,
    test_table,
    test_tries,
    test_where_key,
    test_widen,
)
from tests.mirror.planted_workflow import WORKFLOW_BUGS
from tests.mirror.test_commands import tide, world
from tests.mirror.test_days_conflicts import world as refused_day
from tests.mirror.test_days_purge import world as purged_days
from tests.mirror.test_days_where import world as days_world
from tests.mirror.test_recut import world as cut_world
from tests.mirror.test_table import mirror
from tests.mirror.test_widen import world as wide_world
from tests.mirror.worlds import YAML, MirrorWorld
from tests.mutants.planting import Planted
from tests.world import World
from tidegate.core.base.errors import TidegateError

__all__ = ["cut_world", "days_world", "mirror", "purged_days", "refused_day", "tide", "wide_world", "world"]  # fixtures

FOUND_BY: dict[str, Callable[..., None]] = {
    # tries
    "a try is judged by another one of its batches": test_table.test_m1_a_merge_of_an_older_snapshot_is_refused,
    "a refusal is not asked for": test_life.test_m7_a_contradiction_is_refused_and_nothing_is_committed,
    "a refusal is not written down": test_life.test_m7_a_contradiction_is_refused_and_nothing_is_committed,
    "a refusal holds for any batches": test_tries.test_m7_a_refusal_is_of_its_batches_alone,
    "whatever the newest try came to, it is refused": test_life.test_a_try_that_died_is_overtaken_by_the_table,
    "tries are named by their epoch alone": test_tries.test_r9_a_try_has_a_directory_of_its_own,
    "conflicts are taken in every merge that follows": test_tries.test_m7_conflicts_are_taken_in_one_merge,
    "nobody records that conflicts were taken": test_life.test_m7_a_person_may_let_the_order_decide,
    "an overtaken try is held for good": test_life.test_a_try_that_died_is_overtaken_by_the_table,
    # ranges
    "the last batch is merged again": test_life.test_what_lands_is_merged_once,
    "the table says the first of its merge's batches": test_life.test_what_lands_is_merged_once,
    "the sums are those of one merge": test_life.test_what_lands_is_merged_once,
    "events that the ledger does not know are not missed":
        test_life.test_events_that_the_ledger_does_not_know_stop_the_next_merge,
    "a receipt that does not add up is believed":
        test_applied.test_a_file_that_is_shorter_than_its_receipt_is_not_believed,
    "the copy only goes forward": test_life.test_m4_a_table_that_was_taken_back_goes_on_from_there,
    "nobody is told of a table that was taken back": test_life.test_m4_a_table_that_was_taken_back_goes_on_from_there,
    "the copy is read after the table": test_tries.test_m4_a_merge_in_between_takes_nothing_back,
    "what has landed is read before the table": test_tries.test_m4_a_landing_in_between_is_no_contradiction,
    "a refused commit is made on what stands then": test_table.test_m1_another_commit_between_look_and_commit,
    "the table does not know how late its events are": test_goes_back.test_a_connector_that_sends_again_is_welcome,
    "any key will do": test_bad_keys.test_two_source_tables_in_one_topic,
    # purges
    "what came lately sets the position": test_purge.test_m6_what_came_lately_sets_no_position,
    "nobody asks what is still to come": test_purge.test_m6_unread_records_hold_a_purge_up,
    "a batch that waits says what is still to come": test_purge.test_m6_a_batch_that_waits_says_nothing,
    "a purge leaves no marker": test_purge.test_m5_old_tombstones_go_and_the_table_says_so,
    "rows that a purge keeps out are damage": test_purge.test_m5_an_event_that_is_kept_out_is_no_damage,
    "a purge that died counts as done": test_purge.test_a_purge_that_died_is_made_anew_at_once,
    "a purge is done in each run": test_purge.test_nothing_to_drop_is_no_commit_and_enough_for_a_day,
    # cuts
    "a cut loses a bucket": test_recut.test_a_table_is_cut_into_more_and_fewer_buckets,
    "a cut loses a bucket, and nobody counts": test_recut.test_a_table_is_cut_into_more_and_fewer_buckets,
    "any number of buckets will do": test_recut.test_any_other_number_is_refused,
    "merges go by the spec's number of buckets": test_recut.test_a_table_is_cut_into_more_and_fewer_buckets,
    "merges go before a cut": test_recut.test_a_cut_comes_before_merges,
    "a silent table has the spec's number":
        test_recut.test_a_table_that_does_not_say_it_has_as_many_as_its_last_batch,
    "a cut leaves files of before": test_recut.test_a_table_is_cut_into_more_and_fewer_buckets,
    # cleaning
    "open tries are cleaned by age": test_cleaning.test_a_try_that_is_open_stays,
    "tries that the ledger does not know are cleaned":
        test_cleaning.test_what_the_ledger_does_not_know_stays_and_is_told,
    "tries are cleaned at once": test_cleaning.test_nothing_goes_before_its_time,
    "the table is not asked which files it names": test_cleaning.test_files_that_no_snapshot_names_any_more_go,
    "only the current snapshot's files are kept": test_cleaning.test_files_that_a_kept_snapshot_names_stay,
    # columns that grow
    "a narrower type is taken for a wider one": test_widen.test_decimals_get_digits_before_their_point,
    "nobody keeps the type that a column has grown to": test_widen.test_a_column_grows_in_the_middle_of_a_batch,
    "what an expression reads grows": test_widen.test_what_an_expression_reads_stays,
    "any message's schema widens a column": test_widen.test_a_bad_message_of_another_table_widens_nothing,
    # days
    "a rebuild forgets that conflicts were taken": test_days_conflicts.test_a_rebuild_of_the_day_takes_them_again,
    "nobody records why a day took conflicts": test_days_conflicts.test_the_order_decides_and_the_days_go_on,
    "a day purges what came lately": test_days_purge.test_m5_old_tombstones_go_and_the_day_says_so,
    "a day does not ask what is still to come": test_days_purge.test_m6_tombstones_stay_while_records_are_unread,
    "a day's purge leaves no marker": test_days_purge.test_m5_an_event_below_the_marker_makes_no_row,
    "a day that is built again purges by the YAML": test_days_purge.test_a_day_that_is_built_again_purges_the_same,
    # readers
    "a token repeats its batch": test_changes.test_until_ends_a_reading_and_the_same_token_gives_the_same,
    "a token skips a batch": test_changes.test_until_ends_a_reading_and_the_same_token_gives_the_same,
    "a hole is passed over": test_changes.test_a_hole_is_never_passed_over,
    "a token is beyond what was read": test_changes.test_until_ends_a_reading_and_the_same_token_gives_the_same,
    "a token is stuck before empty batches": test_changes.test_a_batch_that_was_given_up_has_no_events,
    "repeats of a key are not told": test_where_key.test_repeats_and_stragglers,
    "only the last files of a key are told": test_where_key.test_only_the_newest_are_told_and_the_row_always,
    "events of a key that wait are not told": test_where_key.test_a_conflict_waits,
    "conflicts of a key are not told": test_where_key.test_a_conflict_waits,
    "days that are not published are told as merged": test_days_where.test_each_event_says_its_day,
    "files of days that move are looked for once": test_days_where.test_what_moves_meanwhile_is_looked_for_again,
    "the audit compares no events": test_commands.test_the_audit_finds_events_that_the_ledger_does_not_have,
    "the audit passes over a table that is ahead": test_commands.test_the_audit_finds_a_table_beyond_the_ledger,
    "the audit passes over changed rows": test_commands.test_the_audit_finds_rows_that_others_took_away,
}  # fmt: skip
_OF_TWO_BATCHES = ("test_commands", "test_changes")
_OF_THEIR_OWN = {
    "test_recut": "cut_world",
    "test_days_where": "days_world",
    "test_days_purge": "purged_days",
    "test_widen": "wide_world",
    "test_days_conflicts": "refused_day",
}


@pytest.mark.parametrize("name", WORKFLOW_BUGS)
def test_a_planted_bug_is_found(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    found_by = FOUND_BY[name]
    given = {p: _given(p, found_by, tmp_path, request) for p in inspect.signature(found_by).parameters}
    with Planted(WORKFLOW_BUGS[name]) as planted:
        with pytest.raises((AssertionError, TidegateError, pytest.fail.Exception)):
            found_by(**given)
        assert planted.never_called() == []


def _given(name: str, test: Callable[..., None], tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """What the test's fixture of that name would be."""
    module = test.__module__.rpartition(".")[2]
    if name == "world" and module not in _OF_TWO_BATCHES:
        yaml = test_purge.KEPT if module == "test_purge" else YAML
        if module in _OF_THEIR_OWN:
            return request.getfixturevalue(_OF_THEIR_OWN[module])
        made = World(tmp_path) if module == "test_applied" else MirrorWorld(tmp_path, yaml)
        request.addfinalizer(made.close)
        return made
    return request.getfixturevalue(name)
