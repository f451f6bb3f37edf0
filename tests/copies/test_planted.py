"""Each bug in how a table is copied is found by the test that is named here, which passes without it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.copies import (
    test_compared_long,
    test_complete,
    test_copy,
    test_days,
    test_days_restored,
    test_forgotten,
    test_hidden,
    test_idle,
    test_later_columns,
    test_narrow,
    test_narrow_shards,
    test_narrow_texts,
    test_overtaken,
    test_parts,
    test_servers,
    test_servers_apart,
    test_servers_compared,
    test_servers_dropped,
    test_servers_gone,
    test_servers_purge,
    test_shards,
)
from tests.copies.planted import COPY_BUGS
from tests.copies.planted_servers import SERVER_BUGS
from tests.copies.test_copy import world
from tests.core import test_core_copy_ranges
from tests.mirror import test_checksums
from tests.mutants.planting import Planted
from tidegate.core.base.errors import TidegateError
from tidegate.workflow.copy import narrow

__all__ = ["world"]  # a fixture

FOUND_BY: dict[str, Callable[..., None]] = {
    "LOW is asked for after the query": test_copy.test_changes_during_the_read_win_over_what_was_read,
    "rows of a copy have the place of events": test_copy.test_an_idle_source_gives_two_readings_the_same_low,
    "numbers of copies go by the ledger alone":
        test_copy.test_a_ledger_that_was_restored_does_not_give_chunks_other_ranges,
    "nobody asks whether the topic has begun":
        test_copy.test_nothing_is_read_before_the_topic_has_shown_that_it_began,
    "a chunk below the topic's beginning is taken": test_overtaken.test_s4_the_topic_begins_before_the_first_chunk,
    "a sweep does not wait for chunks": test_overtaken.test_s5_a_copy_that_is_read_in_part_is_not_swept,
    "a sweep goes by the greatest LOW": test_overtaken.test_s5_the_sweep_leaves_what_was_read_first,
    "a sweep leaves no marker": test_copy.test_events_of_before_the_copy_that_come_after_it_bring_nothing_back,
    "LOW falls from copy to copy": test_overtaken.test_s5_no_copy_is_read_below_one_that_was_before_it,
    "a copy that was given up is merged": test_overtaken.test_s6_what_was_read_of_a_copy_that_was_given_up_stays_out,
    "a chunk below the purge is merged": test_overtaken.test_s7_a_chunk_that_is_older_than_a_purge_is_read_again,
    "a copy's commit is made on what stands then":
        test_overtaken.test_s8_chunks_that_another_task_has_merged_are_not_merged_again,
    "an overtaken attempt is accepted": test_overtaken.test_an_attempt_that_was_overtaken_is_not_accepted,
    "a restored ledger gives chunks other ranges":
        test_copy.test_a_ledger_that_was_restored_does_not_give_chunks_other_ranges,
    "only the first shard is read": test_shards.test_rows_of_equal_keys_are_told_apart,
    "events of any table are taken": test_shards.test_events_that_say_no_table_are_refused,
    "readers see what is copied so far": test_hidden.test_each_commit_shows_nothing_or_a_whole_copy,
    "the sweep of a part takes all keys": test_parts.test_only_these_keys_are_read_and_put_right,
    "the sweep of a part leaves no marker": test_parts.test_an_event_of_before_the_part_brings_nothing_back,
    "the marker of a part is one of all keys": test_parts.test_an_event_of_before_the_part_brings_nothing_back,
    "a part makes the table whole": test_parts.test_the_certificate_stays_that_of_the_whole_copy,
    "a part is read to the end of the table": test_parts.test_only_these_keys_are_read_and_put_right,
    "a sweep is of all servers": test_servers.test_s5_a_sweep_is_of_one_server,
    "a marker is of all servers": test_servers.test_s5_the_marker_of_one_server_stops_no_event_of_the_other,
    "LOW is compared with copies of other servers": test_servers.test_rows_of_equal_keys_are_told_apart,
    "copies of all servers come in one order":
        test_servers_apart.test_s6_rows_that_were_read_are_merged_though_a_later_copy_of_another_server_is_in,
    "tombstones go while a copy of their server is under way":
        test_servers_purge.test_s7_tombstones_of_a_server_stay_while_a_copy_of_it_is_under_way,
    "any server's event shows where the topic begins":
        test_servers.test_s4_an_event_of_one_server_says_nothing_of_the_others_topic,
    "whole once one server is": test_servers.test_readers_see_nothing_before_each_server_has_a_whole_copy,
    "events of any server are taken": test_servers.test_an_event_of_another_server_is_refused,
    "the first server's position is told of all": test_servers.test_each_server_is_told_of_and_the_smallest_time,
    "the newest time of all servers is told": test_servers.test_each_server_is_told_of_and_the_smallest_time,
    "a comparison has caught up by the first server's log":
        test_servers_compared.test_the_mirror_has_caught_up_with_the_log_of_that_server,
    "a comparison with one server takes rows of all": test_servers_compared.test_what_is_equal_is_read_of_no_server,
    "some keys of a server are those of all": test_servers_compared.test_some_keys_of_a_server_are_read_again,
    "some keys make a server whole": test_servers_compared.test_a_part_makes_no_server_whole,
    "the marker of one server purges rows of the other":
        test_servers_purge.test_m5_each_server_has_a_marker_of_its_own,
    "the marker of one server keeps out events of the other":
        test_servers_purge.test_m5_the_marker_of_one_server_keeps_out_no_event_of_the_other,
    "a purge is forgotten with its server's line": test_servers_gone.test_m5_the_marker_of_a_server_that_is_gone_stays,
    "what has dropped a server's rows is a copy of it": test_servers_dropped.test_a_server_that_comes_back_is_read_anew,
    "a server without rows is waited for":
        test_servers_dropped.test_s9_the_time_is_told_again_without_a_server_whose_rows_are_gone,
    "a comparison sees no purge": test_compared_long.test_s7_deleted_keys_that_were_purged_are_not_missing,
    "a purge sets one marker for all servers": test_servers_purge.test_m5_each_server_has_a_marker_of_its_own,
    "a purge does not wait for a copy":
        test_servers_purge.test_s7_tombstones_of_a_server_stay_while_a_copy_of_it_is_under_way,
    "positions go back by any server's clock":
        test_servers.test_positions_that_go_back_are_seen_whatever_the_clock_of_the_other_server_says,
    "a checksum leaves a column out": test_narrow.test_keys_outside_what_was_read_are_no_surplus,
    "a checksum does not count rows": test_core_copy_ranges.test_a_range_differs_by_its_rows_or_their_sum,
    "what was read in part is merged as a whole": test_narrow.test_fix_leaves_the_rows_between_what_was_read,
    "keys outside of what was read are surplus": test_checksums.test_keys_are_located_as_one_by_one,
    "keys of no group that was read are surplus":
        test_checksums.test_keys_are_of_the_group_that_their_digest_begins_with,
    "rows count for each shard": test_narrow_shards.test_what_is_equal_is_not_read,
    "rows of a shard that is gone are left out": test_narrow_shards.test_rows_of_a_table_that_is_gone_are_found,
    "a shard that was read is merged as all": test_narrow_shards.test_fix_leaves_the_shards_that_are_equal,
    "groups that were read are merged as all": test_narrow_texts.test_fix_reads_all_since_texts_have_no_parts,
    "a null has the text of an empty one": test_checksums.test_values_that_differ_have_other_numbers,
    "texts run into each other": test_checksums.test_neighbours_are_told_apart,
    "the log's end is asked before the topic's": test_complete.test_a_change_while_it_is_looked_is_not_missed,
    "it is exact with events behind": test_complete.test_an_event_behind_the_look_makes_it_newer_than_exact,
    "it is told of whatever the table is by now": test_idle.test_a_copy_meanwhile_is_judged_anew,
    "it is told before a copy is whole": test_idle.test_it_tells_nothing_while_the_first_copy_is_read,
    "columns that came later are complete": test_later_columns.test_rows_that_lack_a_later_column_are_not_complete,
    "some keys stand for all in a later column":
        test_later_columns.test_a_comparison_of_some_keys_says_nothing_of_others,
    "it is exact with a HIGH above": test_complete.test_a_chunk_may_be_newer_than_exact,
    "a part covers all keys": test_forgotten.test_a_table_names_copies_of_keys_that_no_later_one_has,
    "what was read goes before a later copy is whole":
        test_forgotten.test_what_was_read_counts_while_a_later_copy_is_read,
    "what was read again is merged again":
        test_forgotten.test_what_was_read_again_is_not_merged_again_though_its_row_is_there,
    "what a table names is forgotten": test_forgotten.test_what_a_table_names_stays,
    "the newest comparison is forgotten": test_forgotten.test_a_lap_goes_on_where_it_was,
    "numbers of chunks are given again": test_forgotten.test_numbers_are_never_given_twice,
    "rows of a copy count as events": test_copy.test_rows_of_before_the_topic_are_copied,
    "no day waits for the copy": test_days.test_the_first_day_waits_for_the_copy_and_has_all_rows,
    "a day takes what is read so far": test_days.test_a_copy_that_is_read_in_part_is_no_day,
    "a day that is built again takes the newest copy": test_days.test_a_day_that_is_built_again_takes_the_same_copy,
    "a day whose record is lost takes the newest copy":
        test_days_restored.test_a_day_whose_record_is_lost_takes_no_copy_of_later,
    "days do not say which copy they have": test_days_restored.test_r11_a_day_is_not_built_again_by_half_a_copy,
    "a day's rows of a copy have the place of events":
        test_days.test_s1_a_row_that_was_read_is_newer_than_the_event_at_its_low,
    "a day does not sweep": test_days.test_s5_rows_that_are_gone_without_an_event_go_with_the_next_copy,
    "a day sweeps by the greatest LOW": test_days.test_changes_during_the_read_win,
    "a day's sweep leaves no marker": test_days.test_s5_a_straggler_of_before_the_copy_brings_nothing_back,
    "no landed event is asked for": test_days.test_nothing_is_read_before_an_event_has_landed,
    "a chunk below what has landed is taken": test_days.test_s4_a_chunk_below_what_has_landed_is_read_again,
}  # fmt: skip


BUGS = COPY_BUGS | SERVER_BUGS


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    found_by = FOUND_BY[name]
    given = {p: _given(p, found_by, tmp_path, request) for p in inspect.signature(found_by).parameters}
    with Planted(BUGS[name]) as planted:
        with pytest.raises((AssertionError, TidegateError, pytest.fail.Exception)):
            found_by(**given)
        assert planted.never_called() == []


def _given(name: str, test: Callable[..., None], tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """What the test's fixture of that name would be."""
    begins = (
        test_compared_long,
        test_complete,
        test_days,
        test_days_restored,
        test_forgotten,
        test_hidden,
        test_idle,
        test_later_columns,
        test_narrow,
        test_narrow_shards,
        test_narrow_texts,
        test_overtaken,
        test_parts,
        test_servers,
        test_servers_apart,
        test_servers_compared,
        test_servers_dropped,
        test_servers_gone,
        test_servers_purge,
        test_shards,
    )
    if "ROWS" in test.__globals__:
        request.getfixturevalue("monkeypatch").setattr(narrow, "ROWS", test.__globals__["ROWS"])
    begun = {one.__name__: one.begun for one in begins}.get(test.__module__)
    if name == "world" and begun is not None:
        made = begun(tmp_path)
        request.addfinalizer(made.close)
        return made
    return request.getfixturevalue(name)
