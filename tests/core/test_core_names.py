"""Names, records, compatibility, merges, swaps and words: small rules of the core, table by table."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime

import pytest
from core_values import HOUR, PIPELINE, T0

from tidegate.core.base import partition_values
from tidegate.core.base.errors import Alarm, BatchRefused, SpecError, TidegateError
from tidegate.core.base.hivetypes import parse
from tidegate.core.base.instants import iso, span
from tidegate.core.base.offsets import Interval
from tidegate.core.base.plain import dumps, from_plain, loads
from tidegate.core.base.renames import Do, Seen, decide
from tidegate.core.files import merge
from tidegate.core.files.merge import Merge, Merged, MergeReceipt, Source
from tidegate.core.files.receipt import FileEntry, PartitionRows
from tidegate.core.spec.compatibility import incompatible
from tidegate.core.spec.pipeline import EXTRA_COLUMN, KAFKA_COLUMNS, late_columns, table_columns
from tidegate.core.target import paths as layout
from tidegate.core.target.paths import Layout
from tidegate.core.window import cut, name
from tidegate.core.window.lateness import Floor, floor_of
from tidegate.core.window.states import Window, WindowKey, rows_by_values

ID = "20130105T000000Z"
PATHS = Layout.of(PIPELINE)
WORK = "file:///lake/flights/_tidegate"

# ---------------------------------------------------------------- paths and instants


def test_the_rest_of_the_paths() -> None:
    assert (PATHS.location, PATHS.workdir) == ("file:///lake/flights", WORK)
    assert PATHS.plans() == f"{WORK}/plans"
    assert PATHS.attempts() == f"{WORK}/tmp"
    assert PATHS.attempt_name(3, 2, "ab") == "3.2-ab"
    assert PATHS.replay_name(T0, 3, 2, "ab") == f"{ID}.3.2-ab"
    assert PATHS.replay_plan(T0, 3, 2, "ab") == f"{WORK}/plans/{ID}.3.2-ab.json"
    assert PATHS.merge_name(T0, 3, 2, "ab") == f"{ID}.3.2-ab.merge"
    assert PATHS.merge_plan(T0, 3, 2, "ab") == f"{WORK}/plans/{ID}.3.2-ab.merge.json"
    assert PATHS.merge_attempt(T0, 3, 2, "ab") == f"{WORK}/tmp/{ID}.3.2-ab.merge"
    assert PATHS.landing_zone() == f"{WORK}/landed"
    assert PATHS.high_water_marks() == f"{WORK}/hwm"
    assert PATHS.publication_day(T0 + 1) == f"{WORK}/hwm/published/2013-01-05"
    assert PATHS.publication_mark(T0, T0, 3, 2) == f"{WORK}/hwm/published/2013-01-05/{ID}.3.2"
    assert (PATHS.side_stagings(), PATHS.side_table("late")) == (f"{WORK}/side", f"{WORK}/late")
    assert PATHS.quarantine("x") == f"{PATHS.quarantines()}/x" == f"{WORK}/quarantine/x"
    assert PATHS.assemblies() == f"{WORK}/publish"
    assert PATHS.success_draft(T0, 3) == f"{WORK}/publish/{ID}.3.success"
    assert (PATHS.generations(), PATHS.empty()) == (f"{WORK}/generations", f"{WORK}/empty")
    assert PATHS.window((("date", "2013-01-05"), ("x", None))) == (
        f"file:///lake/flights/date=2013-01-05/x={partition_values.HIVE_NULL}"
    )
    assert layout.join("a/", "/b/", "c") == "a/b/c"


def test_names_do_not_depend_on_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert (cut.window_id(T0), cut.parse_window_id(ID)) == (ID, T0)
        assert (layout.publication_day(T0), iso(T0)) == ("2013-01-05", "2013-01-05T00:00Z")
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("value", [".", ".."])
def test_dots_alone_are_no_directory(value: str) -> None:
    assert partition_values.escape(value) == "%2E" * len(value)
    assert partition_values.unescape(partition_values.escape(value)) == value


def test_partition_paths_come_back() -> None:
    values = (("date", "2013-01-05"), ("c", "a=b/c"), ("n", None))
    assert partition_values.partition_path(values) == f"date=2013-01-05/c=a%3Db%2Fc/n={partition_values.HIVE_NULL}"
    assert partition_values.parse_partition_path(f"/{partition_values.partition_path(values)}/") == values
    assert partition_values.parse_partition_path("c=a=b") == (("c", "a=b"),), "as others may spell it"


@pytest.mark.parametrize(("length", "fits"), [(253, True), (254, False)])
def test_a_name_has_255_bytes(length: int, fits: bool) -> None:
    assert partition_values.fits("x" * length, "c") == fits


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (None, "never"), (0, "1970-01-01T00:00Z"), (T0, "2013-01-05T00:00Z"), (T0 + 60_000, "2013-01-05T00:01Z"),
        (T0 + 1000, "2013-01-05T00:00:01Z"), (T0 + 7, "2013-01-05T00:00:00.007Z"),
        (T0 + 61_500, "2013-01-05T00:01:01.500Z"), (-1, "1969-12-31T23:59:59.999Z"),
        (10**15, "1970 + 11,574,074 days"), (-(10**15), "1970 - 11,574,074 days"),
    ],
)  # fmt: skip
def test_instants(ms: int | None, words: str) -> None:
    assert iso(ms) == words


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 s"), (119_000, "119 s"), (-119_000, "119 s"), (120_000, "2 min"), (7_199_000, "120 min"),
        (7_200_000, "2.0 h"), (169_056_000, "47.0 h"), (172_799_000, "48.0 h"), (172_800_000, "2.0 days"),
        (216_000_000, "2.5 days"), (8_722_100_000, "101.0 days"), (119_500, "120 s"), (172_623_600, "48.0 h"),
        (63_067_766_400, "730.0 days"), (63_071_999_000, "730.0 days"), (63_072_000_000, "2.0 years"),
        (2_287_900_000_000, "72.5 years"),
    ],
)  # fmt: skip
def test_durations(ms: int, words: str) -> None:
    assert span(ms) == words


def test_what_the_floor_keeps() -> None:
    windows = replace(PIPELINE.windows, start_ms=5 * HOUR, max_age_ms=10 * HOUR)
    assert floor_of(windows, [], 12 * HOUR) == Floor(5 * HOUR), "windows.start is the later one"
    assert floor_of(windows, [4 * HOUR, 5 * HOUR], 0) == Floor(5 * HOUR, (Interval(4 * HOUR, 6 * HOUR),))
    assert floor_of(windows, [4 * HOUR], 0) == Floor(5 * HOUR), "what ends at the low mark is below it anyway"
    floor = Floor(5, (Interval(10, 12), Interval(20, 22)))
    assert [s for s in range(26) if floor.is_late(s, s + 1)] == [*range(5), 10, 11, 20, 21]
    assert not floor.is_late(4, 6)


def test_plain_values() -> None:
    assert dumps({2: (1, "ü"), 1: frozenset({"b", "a"})}) == '{"1":["a","b"],"2":[1,"ü"]}'
    assert from_plain(dict[int, float | None], {"1": 2, "2": None}) == {1: 2, 2: None}
    assert from_plain(frozenset[str], ["a"]) == frozenset({"a"})
    assert from_plain(tuple[int, str], [1, "a"]) == (1, "a")
    assert from_plain(str | int, 5) == 5
    assert from_plain(list[Interval], [{"start": 1, "end": 2}]) == [Interval(1, 2)]
    assert from_plain(str | int | None, None) is None
    assert from_plain(dict[str, Interval], {"a": {"start": 1, "end": 2}}) == {"a": Interval(1, 2)}
    assert from_plain(tuple[Interval, int], [{"start": 1, "end": 2}, 3]) == (Interval(1, 2), 3)
    assert from_plain(tuple[int, ...], [1, 2, 3]) == (1, 2, 3)
    assert from_plain(tuple[int, str, int], [1, "a", 2]) == (1, "a", 2)
    for kind, value in ((int, True), (bool, 1), (str, 5), (int, 1.5), (tuple[int, str], [1]), (float, "x")):
        with pytest.raises(ValueError, match="is no|argument 2|shorter"):
            from_plain(kind, value)
    for kind, value, says in (
        (str | int, [5], r"^'\[5\]' is no str$"),
        (int | None, "x", "invalid literal"),
        (dict[str, bool], {"a": "x"}, "^'x' is no bool$"),
        (tuple[int, str], [1, 2], "^'2' is no str$"),
        (int, [*range(30)], r"^'\[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1' is no int$"),
    ):
        with pytest.raises(ValueError, match=says):
            from_plain(kind, value)
    for text in ("null", "[1", "5", '"x"', "[]"):
        with pytest.raises(ValueError, match="Interval|Expecting"):
            loads(Interval, text)


# ---------------------------------------------------------------- specs


def windows(**change: object) -> dict[str, object]:
    return {"windows": replace(PIPELINE.windows, **change)}


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"source": replace(PIPELINE.source, topic="x")}, "source.topic was flights, is x"),
        (windows(size_ms=2 * HOUR), "windows.size was 60 min, is 120 min"),
        (windows(timezone="Europe/Berlin"), "windows.timezone"),
        ({"partition_by": ("date", "hour")}, "partition_by was date, hour, carrier, leg, is date, hour"),
        *[
            ({"sink": replace(PIPELINE.sink, **{f: "x"})}, f"sink.{f}")
            for f in ("table", "location", "workdir", "format")
        ],
        (windows(start_ms=1), "windows.start was 1970-01-01T00:00Z, is 1970-01-01T00:00:00.001Z"),
        (windows(start_ms=HOUR), "windows.start"),
        (windows(start_ms=-HOUR // 2), "moved from 1970-01-01T00:00Z to 1969-12-31T23:30Z: not by whole windows"),
    ],
)
def test_changes_that_would_hide_rows(change: dict[str, object], key: str) -> None:
    (reason,) = incompatible(PIPELINE, replace(PIPELINE, **change))
    assert key in reason


def test_changes_that_a_running_pipeline_takes() -> None:
    less = {"columns": PIPELINE.columns[:2]}
    for change in (windows(start_ms=-3 * HOUR), windows(idle="wait"), {"where": "x > 1"}, less):
        assert incompatible(PIPELINE, replace(PIPELINE, **change)) == []
    odd = replace(PIPELINE, **windows(start_ms=HOUR // 4))
    assert incompatible(odd, replace(odd, **windows(start_ms=HOUR // 4 - HOUR))) == []
    day = replace(PIPELINE, **windows(size_ms=24 * HOUR))
    assert incompatible(day, replace(day, windows=replace(day.windows, start_ms=-HOUR))) == [], "local days"


def test_columns_of_files() -> None:
    everything = replace(PIPELINE, kafka_columns=True, format=replace(PIPELINE.format, unknown_fields="capture"))
    assert table_columns(everything) == (("fare", "double"), EXTRA_COLUMN, *KAFKA_COLUMNS)
    assert late_columns(PIPELINE) == (("carrier", "string"), ("leg", "int"), ("fare", "double"))
    assert PIPELINE.time_partitions == ("date", "hour")


@pytest.mark.parametrize("text", ["decimal(1)", "decimal(38,38)", "decimal(3,3)", "decimal(3,0)"])
def test_decimals_at_their_limits(text: str) -> None:
    precision, _, scale = text[8:-1].partition(",")
    assert str(parse(text)) == f"decimal({precision},{scale or 0})"


@pytest.mark.parametrize(
    "text",
    ["decimal(0)", "decimal(", "decimal(3", "decimal(3,", "decimal(3,1", "decimal(3,x)", "decimal 3)", "map<int>",
     "map<int,int", "map int,int>", "array int>", "struct a:int>", "struct<a:int", "struct<a:int,>", "struct<`:`:int>",
     "struct<A:int,a:int>", "map<struct<a:int>,int>", "5", "int)"],
)  # fmt: skip
def test_what_is_no_type(text: str) -> None:
    with pytest.raises(ValueError, match="^type "):
        parse(text)


# ---------------------------------------------------------------- merges


def source(path: str, size: int, batch: int = 1, value: str | None = "x", rows: int = 2) -> Source:
    parts = (PartitionRows(0, rows, batch * 10, batch * 10 + rows - 1),)
    return Source(
        batch,
        FileEntry(
            path=path,
            kind="data",
            window_ms=T0,
            values=(("c", value),),
            rows=rows,
            bytes=size,
            min_event_ms=T0 + batch,
            max_event_ms=T0 + batch + 5,
            checksum=2**63,
            partitions=parts,
        ),
        (path,),
    )


def paths(found: list[tuple[Source, ...]]) -> list[list[str]]:
    return [[s.entry.path for s in g] for g in found]


SMALL = [source("b", 49, 2), source("a", 49, 1), source("c", 49, 3)]


@pytest.mark.parametrize(
    ("files", "least", "merges"),
    [
        (SMALL, 3, [["a", "b"]]),
        (SMALL, 4, []),
        (SMALL, None, []),
        (SMALL[:1], 1, []),
        ([source("a", 50), source("b", 49), source("c", 49)], 3, []),  # half of the target is not small
        ([source("a", 50), source("b", 49), source("c", 49)], 2, [["b", "c"]]),
        (
            [source("a", 40), source("b", 40), source("c", 20), source("d", 1), source("e", 1)],
            2,
            [["a", "b", "c"], ["d", "e"]],
        ),
        ([source("a", 9), source("b", 9, value="y"), source("c", 9)], 2, [["a", "c"]]),
        ([source("a", 9), source("b", 9, batch=9), source("c", 9)], 2, [["a", "c"]]),  # other columns
    ],
)
def test_what_is_worth_merging(files: list[Source], least: int | None, merges: list[list[str]]) -> None:
    columns = {b: "old" if b < 9 else "new" for b in range(1, 10)}
    assert paths(merge.groups(files, columns, 100, least)) == merges
    if merges:
        assert merge.worth_a_look([f.entry for f in files], 100, least)


def test_partitions_are_merged_one_by_one() -> None:
    values = ("y", None, "x")
    files = [source(f"{n}{value}", 9, value=value) for n in "ba" for value in values]
    found = paths(merge.groups(files, {1: None}, 100, 2))
    assert found == [["ax", "bx"], ["ay", "by"], ["aNone", "bNone"]]


def test_a_merge_is_full_at_its_target() -> None:
    files = [source(n, 25) for n in "abcdefgh"]
    assert paths(merge.groups(files, {1: None}, 100, 2)) == [["a", "b", "c", "d"], ["e", "f", "g", "h"]]


def test_a_look_is_cheap_and_says_no_when_it_must() -> None:
    entries = [f.entry for f in SMALL]
    assert merge.worth_a_look(entries, 100, 3)
    assert not merge.worth_a_look(entries, 100, 4)
    assert not merge.worth_a_look(entries, 98, 1)
    assert not merge.worth_a_look(entries, 100, None)


def test_a_merged_file_is_the_sum_of_its_sources() -> None:
    other = replace(SMALL[2].entry, partitions=(PartitionRows(4, 2, 8, 9),), min_event_ms=None, max_event_ms=None)
    due = merge.sum_of([*SMALL[:2], replace(SMALL[2], entry=other)], "m", 77)
    parts = (PartitionRows(0, 4, 10, 21), PartitionRows(4, 2, 8, 9))
    assert due == FileEntry(
        path="m",
        kind="data",
        window_ms=T0,
        values=(("c", "x"),),
        rows=6,
        bytes=77,
        min_event_ms=T0 + 1,
        max_event_ms=T0 + 7,
        checksum=2**63,
        partitions=parts,
    )
    bare = replace(SMALL[0], entry=other)
    assert (merge.sum_of([bare], "m", 1).min_event_ms, merge.sum_of([bare], "m", 1).max_event_ms) == (None, None)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, []),
        ({"rows": 5}, ["m-1: rows 5, its sources' are 4"]),
        ({"checksum": 1}, ["m-1: checksum 1"]),
        ({"partitions": ()}, ["m-1: rows by Kafka partition ()"]),
        ({"bytes": 78}, ["m-1: bytes in its directory 77"]),
        ({"stem": "other"}, ["other is not among", "m was not merged"]),
    ],
)
def test_a_merge_that_does_not_add_up(change: dict[str, object], says: list[str]) -> None:
    got = Merged("m", "m-1", 77, 4, 0, (PartitionRows(0, 4, 10, 21),))
    found = merge.errors([Merge("m", tuple(SMALL[:2]))], MergeReceipt("a", (replace(got, **change),)), {"m-1": 77})
    assert len(found) == len(says)
    assert all(f.startswith(s) for f, s in zip(found, says, strict=True)), found


def test_each_merge_is_looked_at() -> None:
    merges = [Merge("gone", tuple(SMALL[:2])), Merge("m", tuple(SMALL[:2]))]
    got = Merged("m", "m-1", 77, 5, 0, (PartitionRows(0, 4, 10, 21),))
    assert merge.errors(merges, MergeReceipt("a", (got,)), {"m-1": 77}) == [
        "gone was not merged",
        "m-1: rows 5, its sources' are 4",
    ]


def test_files_that_a_merge_has_taken_up() -> None:
    assert merge.merged_sources(["a", "b", "c"], ["c", "m"]) == {"a", "b"}


# ---------------------------------------------------------------- renames, windows, errors


def test_r10_whole() -> None:
    absent, matches, differs = Seen.ABSENT, Seen.MATCHES, Seen.DIFFERS
    assert {(s.name, d.name): decide(s, d).name for s in Seen for d in Seen} == {
        (matches.name, absent.name): "RENAME", (differs.name, absent.name): "ALARM_INCOMPLETE",
        (absent.name, matches.name): "DONE", (matches.name, matches.name): "DELETE_SOURCE",
        (differs.name, matches.name): "DELETE_SOURCE", (matches.name, differs.name): "QUARANTINE",
        (differs.name, differs.name): "QUARANTINE", (absent.name, differs.name): "ALARM_DIFFERS",
        (absent.name, absent.name): "ALARM_LOST",
    }  # fmt: skip
    assert [d.name for d in Do if not d.is_alarm] == ["RENAME", "DONE", "DELETE_SOURCE"]


def test_windows() -> None:
    assert Window(WindowKey(0, 1), "OPEN", None, None, 0).key < Window(WindowKey(0, 2), "OPEN", None, None, 0).key
    files = tuple(s.entry for s in (source("a", 1), source("b", 1, value="y"), source("c", 1, rows=5)))
    assert rows_by_values(files) == {(("c", "x"),): 7, (("c", "y"),): 2}


def test_an_error_says_what_to_do() -> None:
    assert str(TidegateError("no")) == "no"
    assert str(TidegateError("no", advice="wait")) == "no\n  what to do: wait"
    assert str(Alarm("no")).endswith(Alarm.advice)
    assert BatchRefused("no", advice="other").advice == "other"
    assert str(SpecError("no", where="a.yml:3", field="x.y", advice="z")) == "a.yml:3: x.y: no\n  what to do: z"
    assert (str(SpecError("no")), str(SpecError("no", field="x"))) == ("no", "x: no")
    assert (SpecError("no", where="w", field="f").where, SpecError("no", where="w", field="f").field) == ("w", "f")


@pytest.mark.parametrize("at", ["0512-04-26T14:00", "0001-01-04T00:00", "0987-08-25T16:00"])
def test_windows_of_years_below_1000_are_named_by_what_is_shown_of_them(at: str) -> None:
    """Late rows of broken clocks can be of such a window, and people type what they have read."""
    start = int(datetime.fromisoformat(f"{at}+00:00").timestamp() * 1000)
    partition = partition_values.partition_path(
        cut.time_values(start, PIPELINE.time_partitions, PIPELINE.windows.timezone)
    )
    assert iso(start) == f"{at}Z"
    for text in (cut.window_id(start), iso(start), partition):
        assert name.named(PIPELINE, text).start_ms == start
