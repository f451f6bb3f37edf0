"""Files for readers by path, and how people name windows."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE, T0

from tidegate.core.files.receipt import DATA, FileEntry
from tidegate.core.publish.in_force import TableFile, WindowFiles, moved_by, table_file
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.name import NoWindow, named
from tidegate.core.window.states import BUILT, SWAPPING, BuiltGeneration, PublishedGeneration, WindowKey

KEY = WindowKey(T0, T0 + HOUR)
TIME = (("date", "2013-01-05"), ("hour", "00"))
HERE, BESIDE = "file:///lake/flights/date=2013-01-05/hour=00", "file:///lake/flights/_tidegate/generations/w.2.1"


def entry(carrier: str | None, rows: int = 1) -> FileEntry:
    values = (("carrier", carrier), ("leg", "1"))
    return FileEntry(
        path="carrier=x/leg=1/f.parquet",
        kind=DATA,
        window_ms=T0,
        values=values,
        rows=rows,
        bytes=10 * rows,
        min_event_ms=0,
        max_event_ms=0,
        checksum=0,
        partitions=(),
    )


def test_values_are_those_that_a_query_gives() -> None:
    expected = TableFile(f"{HERE}/p/f", (*TIME, ("carrier", "a/b"), ("leg", "1")), 3, 30)
    assert table_file(HERE, "p/f", TIME, entry("a/b", 3)) == expected
    for blank in ("", None):
        assert dict(table_file(HERE, "p/f", TIME, entry(blank)).values)["carrier"] is None


def test_sums_and_paths_by_values() -> None:
    files = tuple(TableFile(f"{HERE}/{n}", (("carrier", c),), n, 10 * n) for n, c in ((1, "a"), (2, "b"), (3, "a")))
    found = WindowFiles(window=KEY, partition="", generation=1, files=files)
    assert (found.rows, found.bytes, found.paths) == (6, 60, [f"{HERE}/{n}" for n in (1, 2, 3)])
    assert found.by_values() == {
        (("carrier", "a"),): [f"{HERE}/1", f"{HERE}/3"],
        (("carrier", "b"),): [f"{HERE}/2"],
    }


@pytest.mark.parametrize(
    ("state", "location", "expected"),
    [(SWAPPING, HERE, True), (SWAPPING, BESIDE, False), (BUILT, HERE, False), (None, None, False)],
)
def test_files_that_make_way(state: str | None, location: str | None, expected: bool) -> None:
    current = PublishedGeneration(
        pipeline="flights",
        window=KEY,
        number=1,
        kind="archive",
        batches=(1,),
        location=HERE,
        files=(),
        digest="d",
        published_ms=T0,
    )
    newest = state and BuiltGeneration(
        pipeline="flights",
        window=KEY,
        number=2,
        epoch=1,
        kind="replay",
        batches=(1,),
        directory="d",
        files=(),
        digest="d",
        state=state,
        location=location,
    )
    assert moved_by(current, newest or None) is expected


@pytest.mark.parametrize(
    "text",
    [
        "2013-01-05", "2013-01-05T00:59:59Z", " 2013-01-05T01:30+01:00 ", "20130105T000000Z",
        "date=2013-01-05/hour=00", "date=2013-01-05/hour=00/carrier=x/leg=1",
    ],
)  # fmt: skip
def test_names_of_a_window(text: str) -> None:
    assert named(PIPELINE, text) == KEY


def test_an_instant_without_a_zone_is_utc_wherever_the_clock_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert named(PIPELINE, "2013-01-05T00:30") == KEY
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "yesterday", "2013-13-05", "date=2013-01-05", "hour=00/date=2013-01-05", "0001"])
def test_what_names_no_window(text: str) -> None:
    with pytest.raises(NoWindow, match="is neither an instant"):
        named(PIPELINE, text)


def test_a_partition_that_no_window_has() -> None:
    spec = replace(PIPELINE, windows=Windows(size_ms=2 * HOUR, timezone="UTC", start_ms=0, watermark_delay_ms=0))
    with pytest.raises(NoWindow, match="none of 120 min begins there by the clocks of UTC"):
        named(spec, "date=2013-01-05/hour=01")
