"""What is merged, and what is worth it: the rules, without a window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.files.merge import Merge, Merged, MergeReceipt, Source, errors, groups, sum_of
from tidegate.core.files.receipt import DATA, FileEntry, PartitionRows

# ---------------------------------------------------------------- what is merged


def source(name: str, size: int, values: tuple = (("site", "a"),), batch: int = 1) -> Source:
    part = PartitionRows(0, 2, batch, batch + 1)
    return Source(
        batch,
        FileEntry(
            path=name,
            kind=DATA,
            window_ms=0,
            values=values,
            rows=2,
            bytes=size,
            min_event_ms=5,
            max_event_ms=6,
            checksum=2**64 - 1,
            partitions=(part,),
        ),
        (name,),
    )


@pytest.mark.parametrize(
    ("sizes", "min_files", "found"),
    [
        ([10, 10, 10], 3, [[10, 10, 10]]),
        ([10, 10, 10], 4, []),
        ([10, 10, 10], None, []),
        ([40, 40, 40, 40, 40], 2, [[40, 40], [40, 40]]),  # the fifth would stay alone
        ([50, 60, 99, 100], 2, []),  # none is small
        ([49, 50, 49, 1], 2, [[49, 49, 1]]),
    ],
)
def test_files_are_merged_up_to_the_target_size(sizes: list[int], min_files: int | None, found: list) -> None:
    files = [source(f"f{n}", size) for n, size in enumerate(sizes)]
    made = groups(files, {1: "columns"}, 100, min_files)
    assert [[s.entry.bytes for s in g] for g in made] == found


def test_only_files_of_one_partition_and_the_same_columns_are_merged() -> None:
    files = [
        source(f"f{n}", 10, (("site", v),), batch) for n, (v, batch) in enumerate(2 * [("a", 1), ("b", 1), ("a", 2)])
    ]
    made = groups(files, {1: "x", 2: "y"}, 100, 2)
    assert sorted({(s.entry.values[0][1], s.batch_id) for s in g} for g in made) == [{("a", 1)}, {("a", 2)}, {("b", 1)}]
    assert len(groups(files, {1: "x", 2: "x"}, 100, 2)) == 2


def test_a_merged_file_is_the_sum_of_its_sources() -> None:
    due = sum_of([source("x", 10, batch=3), source("y", 20, batch=1)], "m", 25)
    assert (due.rows, due.bytes, due.checksum) == (4, 25, 2**64 - 2)
    assert due.partitions == (PartitionRows(0, 4, 1, 4),)
    assert sum_of([source("y", 20, batch=1), source("x", 10, batch=3)], "m", 25).partitions == due.partitions
    assert (due.min_event_ms, due.max_event_ms) == (5, 6)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, None),
        ({"rows": 3}, "rows 3"),
        ({"checksum": 1}, "checksum 1"),
        ({"partitions": (PartitionRows(0, 4, 1, 3),)}, "rows by Kafka partition"),
        ({"bytes": 11}, "bytes in its directory"),
        ({"stem": "other"}, "was not merged"),
    ],
)
def test_a_merge_that_does_not_add_up_is_refused(change: dict, wrong: str | None) -> None:
    merge = Merge("m", (source("x", 10, batch=1), source("y", 10, batch=3)))
    due = sum_of(merge.sources, "m-0", 15)
    told = replace(Merged("m", "m-0", 15, due.rows, due.checksum, due.partitions), **change)
    found = errors([merge], MergeReceipt("a", (told,)), {"m-0": 15})
    assert (wrong is None and not found) or any(wrong in e for e in found)
