"""Each bug in how windows are copied to another cluster is found by the test that is named here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.deliver import test_cluster, test_cluster_iceberg, test_cluster_showing, test_cluster_sweeping
from tests.deliver.cluster_lab import ClusterLab
from tests.deliver.iceberg_lab import IcebergLab
from tests.deliver.planted import CLUSTER_BUGS
from tests.mutants.planting import Planted
from tidegate.core.base.errors import TidegateError

FOUND_BY: dict[str, Callable[..., None]] = {
    "a later try's record is not looked for": test_cluster_showing.test_an_older_try_that_comes_late_is_refused,
    "nobody waits for a request without an answer":
        test_cluster_showing.test_an_older_generation_that_wakes_up_in_its_request_does_not_come_back,
    "no intent is written":
        test_cluster_showing.test_an_older_generation_that_wakes_up_in_its_request_does_not_come_back,
    "the ledger is not asked before a request":
        test_cluster_showing.test_a_try_that_is_overtaken_between_its_copy_and_its_request,
    "a copy is not read back": test_cluster.test_bytes_that_change_on_their_way_are_never_shown,
    "an earlier try's file counts by its length":
        partial(test_cluster.test_a_file_that_was_not_copied_whole_is_copied_again, damage="bytes"),
    "a window's directory is not looked at":
        test_cluster_showing.test_files_that_a_later_try_took_are_missed_before_anything_is_shown,
    "a file is copied again": test_cluster.test_a_file_that_was_copied_whole_is_not_copied_again,
    "a window is copied again": test_cluster.test_a_catalogue_that_was_down_makes_no_second_copy,
    "what stands is not read": test_cluster.test_what_somebody_changes_there_is_found_when_it_is_compared,
    "what readers meet makes way": test_cluster_sweeping.test_what_readers_still_meet_does_not_go,
    "nobody notes what made way": test_cluster_sweeping.test_replaced_files_stay_for_queries_under_way_and_go_then,
    "nothing makes way": test_cluster_sweeping.test_replaced_files_stay_for_queries_under_way_and_go_then,
    "another delivery's directory is taken": test_cluster.test_another_pipelines_directory_is_refused,
    "an Iceberg commit does not ask the ledger": test_cluster_iceberg.test_who_does_not_hold_any_more_commits_nothing,
    "an empty window is no commit":
        partial(test_cluster_iceberg.test_a_commit_that_comes_late_finds_another_table, first=0),
    "a copy's columns are numbered anew":
        test_cluster_iceberg.test_columns_keep_the_numbers_that_files_call_them_by,
    "other numbers of columns are not refused":
        test_cluster_iceberg.test_a_table_that_calls_its_columns_otherwise_is_refused,
    "the rate is not kept": test_cluster.test_a_rate_is_kept,
}  # fmt: skip


@pytest.mark.parametrize("bug", CLUSTER_BUGS)
def test_a_planted_bug_is_found(bug: str, tmp_path: Path) -> None:
    found_by = FOUND_BY[bug]
    known: dict[str, Any] = {"tmp_path": tmp_path}
    parameters = inspect.signature(found_by).parameters
    if "lab" in parameters:
        iceberg = "iceberg" in inspect.getmodule(getattr(found_by, "func", found_by)).__name__  # type: ignore[union-attr]
        known["lab"] = (IcebergLab if iceberg else ClusterLab)(tmp_path)
    free = [p for p, told in parameters.items() if told.default is inspect.Parameter.empty]
    with Planted(CLUSTER_BUGS[bug]) as planted:
        with pytest.raises((AssertionError, TidegateError, OSError, pytest.fail.Exception)):
            found_by(**{p: known[p] for p in free})
        assert planted.never_called() == []
