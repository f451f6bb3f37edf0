"""Edges of small rules: offsets of clocks, sizes of merged files, names of directories, words of members."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from core_values import HOUR, PIPELINE, T0

from tidegate.core.base.choice import Choice
from tidegate.core.base.errors import ReplayRefused
from tidegate.core.base.offsets import Interval
from tidegate.core.base.partition_values import partition_path
from tidegate.core.base.plain import UnknownFields, dumps, from_plain
from tidegate.core.clean.dry_runs import NO_WINDOW, Rehearsal, parse_rehearsal
from tidegate.core.copy.port import KeyRange
from tidegate.core.copy.rounds import Chunk, ChunkState, Round, RoundState
from tidegate.core.copy.steps import to_merge
from tidegate.core.files.merge import Merge, Merged, MergeReceipt, Source, errors, groups
from tidegate.core.files.receipt import DATA, FileEntry, PartitionRows
from tidegate.core.mirror.balance import receipt_errors
from tidegate.core.mirror.copied import NOTHING
from tidegate.core.mirror.counts import Counts
from tidegate.core.mirror.jobs import ApplyReceipt, BaseFile, Bucket, BucketDone, EventFile, MirrorFile
from tidegate.core.mirror.order import Version, is_below, same
from tidegate.core.mirror.parts import KeyPart
from tidegate.core.replay.rollback import Known, choose
from tidegate.core.window import zonedata
from tidegate.core.window.due import MOST_REMEMBERED, Due, remembered
from tidegate.core.window.name import NoWindow, named
from tidegate.core.window.states import CURRENT, RETIRED
from tidegate.core.window.zonedata import Disagreement, ZoneData, version_of

# ---------------------------------------------------------------- zone data


@pytest.mark.parametrize(
    ("offset_ms", "text"),
    [
        (0, "+00:00"),
        (HOUR, "+01:00"),
        (-HOUR // 2, "-00:30"),
        (20_700_000, "+05:45"),
        (14 * HOUR, "+14:00"),
        (-(4 * HOUR + 56 * 60_000 + 2_000), "-04:56:02"),
        (61 * 60_000 + 59_000, "+01:01:59"),
    ],
)
def test_an_offset_as_people_write_it(offset_ms: int, text: str) -> None:
    here = ZoneData("Europe/Berlin", 0, 9, offset_ms, (), "tzdata 1")
    said = Disagreement(T0, replace(here, version=""), here).text("the plan", "this host")
    assert said == (
        f"zone data of Europe/Berlin disagree from 2013-01-05T00:00Z on: UTC{text} by the plan (unknown tzdata), "
        f"UTC{text} by this host (tzdata 1)"
    )


@pytest.fixture
def zones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A host's folder of zone data, behind one that has none of the zone."""
    (tmp_path / "Odd").mkdir()
    (tmp_path / "Odd/Zone").write_text("")
    monkeypatch.setattr(zonedata.zoneinfo, "TZPATH", (str(tmp_path / "none"), str(tmp_path)))
    version_of.cache_clear()
    yield tmp_path
    version_of.cache_clear()


@pytest.mark.parametrize(
    ("file", "text", "version"),
    [
        ("tzdata.zi", "# version 2025b\n# more\n", "2025b"),
        ("+VERSION", "2025c\n", "2025c"),
        ("tzdata.zi", "\n", "of unknown version"),
        ("other", "2025b", "of unknown version"),
    ],
)
def test_a_hosts_zone_data_say_their_version(zones: Path, file: str, text: str, version: str) -> None:
    (zones / file).write_text(text)
    assert version_of("Odd/Zone") == f"tzdata {version} ({zones})"


# ---------------------------------------------------------------- words that a release knows


class Colour(Choice):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Painted:
    colour: Colour | None


def test_a_word_that_only_a_newer_release_knows_is_refused() -> None:
    assert from_plain(Painted, {"colour": "blue"}) == Painted(Colour.BLUE)
    assert from_plain(Painted, {"colour": None}) == Painted(None)
    with pytest.raises(UnknownFields, match=r"^'green' is no Colour of this release, which knows red, blue: a newer"):
        from_plain(Painted, {"colour": "green"})
    with pytest.raises(UnknownFields, match="^'" + "x" * 40 + "' is no Colour"):
        from_plain(Painted, {"colour": "x" * 50})


# ---------------------------------------------------------------- names


def test_texts_that_name_a_window() -> None:
    assert named(PIPELINE, "2013-01-05T01:30+01:00").start_ms == T0
    assert named(PIPELINE, "2013-01-05T01:30").start_ms == T0 + HOUR
    with pytest.raises(NoWindow, match="flights has no windows: its table holds the newest row of each key"):
        named(replace(PIPELINE, windows=replace(PIPELINE.windows, closes=False)), "2013-01-05T01:30")


def test_names_of_dry_runs() -> None:
    assert parse_rehearsal("20130105T000000Z.dry-r.n") == Rehearsal(T0)
    assert parse_rehearsal("redrive.dry-n") == Rehearsal(NO_WINDOW)
    for name in ("20130105T000000Z.x.dry-n", "redrive.dry", "redrive.dry-", "redrive-n", "redrive.wet-n", "x.dry-n"):
        assert parse_rehearsal(name) is None, name


def test_a_value_of_any_script_names_a_directory() -> None:
    assert partition_path((("a", "é"), ("b", "x"))) == "a=é/b=x"


# ---------------------------------------------------------------- merged files


def source(name: str, size: int, low: int = 0, high: int = 9, rows: int = 2) -> Source:
    part = PartitionRows(0, rows, low, high)
    return Source(
        1,
        FileEntry(
            path=name, kind=DATA, window_ms=T0, values=(), rows=rows, bytes=size, min_event_ms=None, max_event_ms=None,
            checksum=1, partitions=(part,),
        ),
        (name,),
    )  # fmt: skip


def test_files_fill_a_merged_one_exactly() -> None:
    made = groups([source(str(n), 25) for n in range(8)], {1: ""}, 100, 2)
    assert [len(g) for g in made] == [4, 4]


def test_offsets_of_a_merged_file_reach_from_the_first_to_the_last() -> None:
    parts = (source("a", 10, 4, 9), source("b", 10, 0, 3))
    good = Merged("m", "p", 20, 4, 2, (PartitionRows(0, 4, 0, 9),))
    merge = (Merge("m", parts),)
    assert errors(merge, MergeReceipt("x", (good,)), {"p": 20}) == []
    short = replace(good, partitions=(PartitionRows(0, 4, 0, 3),))
    assert len(errors(merge, MergeReceipt("x", (short,)), {"p": 20})) == 1
    assert len(errors(merge, MergeReceipt("x", (good,)), {"p": 21})) == 1


# ---------------------------------------------------------------- receipts of merges into keyed tables


def bucket(number: int, rows: int, changed: bool = True, before: int = 0, **more: object) -> BucketDone:
    files = (MirrorFile(f"n{number}", 9, rows, 0),) if changed else ()
    return replace(BucketDone(number, changed, Counts(), files, before), **more)  # type: ignore[arg-type]


def wrong(*done: BucketDone, events: int = 0, batch: int = 1, whole: bool = False) -> list[str]:
    base = (Bucket(0, (BaseFile("b", 3, 9),)), Bucket(5, (BaseFile("c", 2, 9),)))
    receipt = ApplyReceipt(attempt="a", events=((7, events),) if whole else ((batch, events),), buckets=done)
    return receipt_errors([EventFile(batch, "e", events)], base, receipt, None, whole)


def test_of_a_whole_table_every_bucket_is_written() -> None:
    kept = (bucket(0, 3, before=3), bucket(5, 2, before=2))
    assert wrong(*kept, whole=True) == []
    assert wrong(kept[0], whole=True) == ["1 bucket of the day before left out, bucket 5 the first"]
    assert wrong(whole=True) == ["2 buckets of the day before left out, bucket 0 the first"]
    assert "unchanged" in wrong(kept[0], replace(kept[1], changed=False, files=()), whole=True)[0]


def test_of_a_whole_table_nobody_says_of_which_batch_events_are() -> None:
    done = (bucket(0, 5, before=3, counts=Counts(inserted=2)), bucket(5, 2, before=2))
    assert wrong(*done, events=2, whole=True) == []
    assert wrong(*done, events=2, batch=7)[0] != ""


def test_a_new_bucket_had_no_rows() -> None:
    assert wrong(bucket(9, 2, counts=Counts(inserted=2)), events=2) == []
    assert wrong(bucket(9, 1, before=1, counts=Counts(same=1)), events=1) != []


def test_a_sweep_counts_rows_and_a_purge_tombstones() -> None:
    swept = bucket(0, 1, before=3, swept=2)
    assert wrong(swept) == []
    assert wrong(bucket(0, 3, before=3, swept=2, purged=2)) != []
    both = bucket(0, 0, before=3, swept=1, purged=2, tombstones_before=2)
    assert wrong(both) == []
    changed = bucket(0, 4, before=3, counts=Counts(inserted=1, changed=1))
    assert wrong(changed, events=2) == []
    level = bucket(0, 3, before=3, counts=Counts(inserted=1), purged=1, tombstones_before=1)
    assert wrong(level, events=1) == []
    (said,) = wrong(bucket(0, 9, before=3, counts=Counts(changed=1)), events=1)
    assert said == "bucket 0: 9 rows in its new files, 3 before and 0 inserted"


# ---------------------------------------------------------------- copies of a part


def test_a_copy_of_a_part_says_so_with_each_commit() -> None:
    part = KeyPart(("id",), (1,), (9,))
    one = Round(pipeline="p", number=1, table="t", key=("id",), state=RoundState.OPEN, ended=True, part=part)
    chunk = Chunk(
        pipeline="p", number=1, round=1, table="t", keys=KeyRange(), state=ChunkState.READ, low=(5, 0), high=(6, 0)
    )
    brings = to_merge([one], {1: [chunk]}, NOTHING, 10)
    assert brings is not None
    assert brings.step.part == part
    ends = to_merge([one], {1: [chunk]}, brings.step.after(NOTHING), 10)
    assert ends is not None
    assert (ends.step.sweep, ends.step.part) == (True, part)
    assert to_merge([one], {}, NOTHING, 10) is None, "nothing was read of it"


# ---------------------------------------------------------------- rollbacks


def test_a_generation_whose_files_are_going_is_not_gone_back_to() -> None:
    now = Known(3, CURRENT, None, None, (1,))
    going = replace(Known(1, RETIRED, T0, None, (1,)), cleaning_ms=T0 + HOUR)
    with pytest.raises(ReplayRefused, match="were cleaned at 2013-01-05T01:00Z"):
        choose([going, now], None, PIPELINE)
    with pytest.raises(ReplayRefused, match="were cleaned at 2013-01-05T02:00Z"):
        choose([replace(going, cleaned_ms=T0 + 2 * HOUR), now], None, PIPELINE)


# ---------------------------------------------------------------- plain values, parts of time, positions


@dataclass(frozen=True)
class Odd:
    row: tuple[bool, str, bool] | None
    some: frozenset[bool] | None
    by_name: dict[str, tuple[bool, ...]] | None


def test_what_may_be_missing_is_read_as_missing() -> None:
    assert from_plain(Odd, {"row": None, "some": None, "by_name": None}) == Odd(None, None, None)
    whole = {"row": [True, "x", False], "some": [True], "by_name": {"a": [False]}}
    assert from_plain(Odd, whole) == Odd((True, "x", False), frozenset({True}), {"a": (False,)})
    assert dumps(Odd((True, "é", False), None, None)) == '{"by_name":null,"row":[true,"é",false],"some":null}'


def test_a_part_of_time_holds_its_start() -> None:
    due = Due(PIPELINE.windows, (Interval(T0, T0 + HOUR),))
    assert [due.holds(at) for at in (T0 - 1, T0, T0 + HOUR - 1, T0 + HOUR)] == [False, True, True, False]


def test_of_too_many_parts_the_longest_are_remembered() -> None:
    short = [Interval(n * 10 * HOUR, n * 10 * HOUR + HOUR) for n in range(MOST_REMEMBERED)]
    long = Interval(10**12, 10**12 + 2 * HOUR)
    found = remembered([], Due(PIPELINE.windows, ()), [*short, long, Interval(10**13, 10**13 + HOUR // 2)])
    assert len(found) == MOST_REMEMBERED
    assert long in found
    assert Interval(10**13, 10**13 + HOUR // 2) not in found


def test_only_positions_of_one_form_are_compared() -> None:
    one = Version(1, 0, 0, False, 5)
    for compares in (lambda: same(one, one[:4]), lambda: is_below(one, (1, 0))):
        with pytest.raises(ValueError, match="shorter"):
            compares()
