"""`audit --deep` of a mirror: the table is made anew from its batches, and each key that differs is named."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli_commands import Tide, the_json
from tests.mirror import test_commands
from tests.mirror.audits import Change, Here, deep, dropped, overwritten, spoilt
from tests.mirror.files import OnDisk
from tests.mirror.histories import Event
from tests.mirror.lives import live
from tests.mirror.planted import AUDIT_BUGS
from tests.mirror.worlds import MirrorWorld, event
from tests.mutants.planting import Planted
from tidegate.core.audit.scope import Part
from tidegate.core.base.errors import StorageError
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.mirror.comparison import Compared
from tidegate.core.mirror.jobs import Bucket, EventFile
from tidegate.workflow.audit import keyed as workflow
from tidegate.workflow.audit.audit import Report

Row = dict[str, Any]
MOST_LIVES = 100
tide, world = test_commands.tide, test_commands.world


@pytest.fixture
def lived(tmp_path: Path) -> Iterator[MirrorWorld]:
    """Keys 1 to 6; 2 is deleted, 3 was changed; one batch waits."""
    made = MirrorWorld(tmp_path)
    made.land(*(event(n, f"w{n}", 10 + n) for n in range(1, 7)))
    made.apply()
    made.land(event(2, None, 20), event(3, "new", 21), event(3, "new", 21))
    made.apply()
    made.land(event(1, "waits", 30))
    yield made
    made.close()


def only(**changes: Row | None) -> Change:
    """Rows with other cells, by `k<id>`; None: gone."""

    def change(rows: list[Row]) -> list[Row]:
        changed = [(r, changes.get(f"k{r['id']}", r)) for r in rows]
        return [r if to is r else r | to for r, to in changed if to is not None]

    return change


def doubled(rows: list[Row]) -> list[Row]:
    return rows + [r | {"word": "twice"} for r in rows if r["id"] == 4]


def words(report: Report) -> str:
    found = " | ".join(f"{p.subject}: {p.what}" for p in report.problems if p.subject.startswith("bucket"))
    return re.sub(r"\((\d{13}),", lambda m: f"({int(m[1]) - 2**40},", found)  # the first binlog's positions


# ---------------------------------------------------------------- unharmed


def test_an_unharmed_table_is_balanced(lived: MirrorWorld) -> None:
    found = deep(lived)
    assert (found.problems, found.unsettled, found.balanced) == ((), (), True)
    assert found.recomputed is not None
    assert (found.recomputed.upto, found.recomputed.rows, found.recomputed.tombstones) == (2, 5, 1)
    assert (found.recomputed.events, found.recomputed.buckets) == (9, 3)


def test_only_a_deep_audit_makes_it_anew(lived: MirrorWorld) -> None:
    assert deep(lived, coordinates=False).recomputed is None
    assert deep(lived, catalogue=False).recomputed is None


def test_a_sample_is_of_buckets(lived: MirrorWorld) -> None:
    """Each of them is found in the samples that draw it, and its events alone are kept."""
    assert deep(lived).recomputed is not None
    spoilt(lived, only(k1={"word": "x"}))
    drawn, found = set[int](), set[bool]()
    for seed in range(8):
        part = Part(share=0.4, seed=seed)
        report = deep(lived, part=part)
        assert report.recomputed is not None
        mine = [n for n in range(3) if part.draws("bucket", str(n))]
        assert report.recomputed.buckets == len(mine)
        assert ("id=1 is a row word='x'" in words(report)) == (2 in mine)
        drawn, found = drawn | set(mine), found | {bool(report.problems)}
    assert (drawn, found) == ({0, 1, 2}, {True, False})


def test_a_random_life_is_balanced(tmp_path: Path, rng: random.Random) -> None:
    """Repeats, late events, deletes beside upserts, any cut of batches into merges, contradictions that a person took;
    the events of a bucket are merged again in runs of any size."""
    made, commit = MirrorWorld(tmp_path), 0
    log: list[tuple[bytes, bytes]] = []
    for _ in range(6):
        for _ in range(rng.randint(0, 8)):
            commit += rng.randint(0, 2)
            log.append(event(rng.randint(1, 8), rng.choice(["a", "b", None]), commit, row=rng.randint(0, 1)))
        some = [rng.choice(log[-12:]) for _ in range(rng.randint(0, 10))] if log else []
        if some:
            made.land(*some)
        if rng.random() < 0.5:
            made.apply(conflicts="any will do")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_jobs.engine.mirror.compare.RUN_BYTES", rng.choice([1, 10_000, 10_000_000]))
        patch.setattr(workflow, "MOST_EVENTS", rng.choice([1, 5, 1_000]))
        for _ in range(2):
            found = deep(made)
            assert found.problems == ()
            made.apply(conflicts="any will do")
    made.close()


def test_of_repeats_in_several_files_of_a_batch_the_first_stays(tmp_path: Path) -> None:
    """However small the runs of events are: a run ends with a batch, as merges do."""
    disk = OnDisk(tmp_path, buckets=1)
    late, first = (Event((7,), (5, 0, 0), "u", ("a", 1), 1, 0, offset) for offset in (9, 3))
    batches = {1: [late, first], 2: [replace(late, batch=2)], 3: [Event((8,), (6, 0, 0), "c", ("b", 2), 3, 0, 10)]}
    disk.merge(batches, files=2)
    (row,) = (e for e in disk.standing() if e.key == (7,))
    assert row.offset == 3
    reader = Here()
    reader.begin(disk.plan((), 1, 3, base=()), [0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_jobs.engine.mirror.compare.RUN_BYTES", 1)
        for file in (EventFile(n, f"file://{p}", 1) for n in batches for p in sorted(_landed(tmp_path, n))):
            assert reader.events([file]) == ""
        found = reader.compare(disk.base[0])
    reader.close()
    assert (found.rows, found.differ, found.unread) == (2, (), "")


def _landed(folder: Path, batch_id: int) -> Iterator[Path]:
    return (folder / f"landed/{batch_id}").iterdir()


def test_files_are_read_in_groups_of_whole_batches(rng: random.Random) -> None:
    """Or of parts of one: so a run of events can end between any two groups, but within a batch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workflow, "MOST_EVENTS", 10)
        for _ in range(200):
            batches = [[EventFile(n, "", rng.randint(1, 8)) for _ in range(rng.randint(0, 5))] for n in range(1, 9)]
            groups = list(workflow._groups(iter(batches)))
            assert [f for group in groups for f in group] == [f for files in batches for f in files]
            assert all(sum(f.rows for f in group[:-1]) < 10 or len(group) == 1 for group in groups)
            for group, after in pairwise(groups):
                assert group[-1].batch_id < after[0].batch_id or len({f.batch_id for f in group}) == 1


def test_merges_go_on_meanwhile(lived: MirrorWorld) -> None:
    """The snapshot that was read is compared, with its own batches (M4)."""

    class Meanwhile(Here):
        def begin(self, plan: ApplyPlan, buckets: Sequence[int]) -> None:
            super().begin(plan, buckets)
            lived.apply()

    found = deep(lived, Meanwhile())
    assert (found.problems, found.unsettled) == ((), ())
    assert found.recomputed is not None
    assert found.recomputed.upto == 2
    assert lived.rows()[1] == "waits"


# ---------------------------------------------------------------- harmed

HARMS: dict[str, tuple[Change, str]] = {
    "a changed cell": (
        only(k1={"word": "x"}),
        "1 key with another version: id=1 is a row word='x', u at (11, 0, 0) from readings, partition 0, offset 0 "
        "(batch 1) in the table, the batches make a row word='w1', u at (11, 0, 0)",
    ),
    "a row that says that another event made it": (
        only(k3={"_batch_id": 1}),
        "id=3 is a row u at (21, 0, 0) from readings, partition 0, offset 7 (batch 1) in the table, the batches make a "
        "row u at (21, 0, 0) from readings, partition 0, offset 7 (batch 2)",
    ),
    "a dropped row": (only(k5=None), "1 key lacking: id=5 is not in the table, the batches make a row word='w5', u at"),
    "a dropped tombstone": (only(k2=None), "id=2 is not in the table, the batches make a tombstone d at (20, 0, 0)"),
    "a doubled row": (doubled, "1 key with several rows: id=4 is there 2 times in the table, the batches make a row"),
    "a resurrected row": (
        only(k2={"_op": "u", "word": "back"}),
        "id=2 is a row word='back', u at (20, 0, 0) from readings, partition 0, offset 6 (batch 2) in the table, the "
        "batches make a tombstone d at (20, 0, 0)",
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_another_writer_changes_is_named(lived: MirrorWorld, harm: str) -> None:
    change, said = HARMS[harm]
    overwritten(lived, change)
    found = deep(lived)
    assert not found.balanced
    assert said in words(found)
    assert any("were changed by" in p.what for p in found.problems), "the snapshot tells that, without a deep look"
    assert len([p for p in found.problems if p.subject.startswith("bucket")]) == 1, "other buckets are right"


def test_a_row_of_a_bucket_that_no_event_has(lived: MirrorWorld) -> None:
    def change(rows: list[Row]) -> list[Row]:
        return rows + [r | {"id": r["id"] + 3_000_000} for r in rows if r["id"] == 4]

    overwritten(lived, change)
    found = words(deep(lived))
    assert "1 key without any event: id=3000004 is in the table" in found or "hold keys of other buckets" in found


QUIET = {name: harm for name, harm in HARMS.items() if "dropped" not in name and "doubled" not in name}


@pytest.mark.parametrize("harm", QUIET)
def test_what_no_snapshot_says_is_named(lived: MirrorWorld, harm: str) -> None:
    change, said = QUIET[harm]
    assert deep(lived).balanced
    spoilt(lived, change)
    found = deep(lived)
    assert [p.subject.partition(" ")[0] for p in found.problems] == ["bucket"]
    assert said in words(found)
    advice = found.problems[0].advice
    assert "tidegate where readings --key id=" in advice
    assert "take it back" in advice
    assert "tidegate apply readings" in advice


def test_a_file_that_goes_with_its_snapshot_is_unsettled(lived: MirrorWorld) -> None:
    """Merges go on, and old files are cleaned away: nobody has done harm."""

    class Cleaned(Here):
        def compare(self, bucket: Bucket) -> Compared:
            if lived.rows()[1] != "waits":
                lived.apply()
            gone = bucket.files[0].uri if bucket.number == 2 else ""
            Path(gone.removeprefix("file://")).unlink() if gone else None
            return super().compare(bucket)

    found = deep(lived, Cleaned())
    assert found.problems == ()
    assert ["it cannot be compared: " in p.what for p in found.unsettled] == [True]
    assert not found.balanced


def test_a_file_that_is_gone_is_a_problem_of_its_bucket(lived: MirrorWorld) -> None:
    ctx = lived.context()
    assert ctx.keyed is not None
    file = ctx.keyed.held()[1][0].files[0]
    Path(file.uri.removeprefix("file://")).unlink()
    found = deep(lived)
    assert "it cannot be compared: " in words(found)
    assert len(found.problems) == 1


def test_a_table_that_was_dropped_is_made_anew(lived: MirrorWorld) -> None:
    """As the advice says: what has landed never goes."""
    lived.apply()
    before = lived.rows()
    dropped(lived)
    assert lived.apply().merges == 1
    assert lived.rows() == before
    assert deep(lived).balanced


def test_landed_events_that_are_gone_leave_nothing_to_compare(lived: MirrorWorld) -> None:
    landed = [p for p in lived.files() if "/landed/" in p and p.endswith(".parquet")]
    (lived.folder / "lake" / landed[0]).unlink()
    found = deep(lived)
    assert found.recomputed is None
    assert any("not compared with its batches, which cannot be read" in note for note in found.notes)
    assert found.problems != (), "the batch lacks its file"


def test_no_space_for_the_events_is_no_verdict(lived: MirrorWorld) -> None:
    def full(*_: Any) -> None:
        raise StorageError("TMPDIR/000000.arrow: no space left on the filesystem", advice="then clear the task")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_jobs.handlers.mirror.hand_over", full)
        with pytest.raises(StorageError, match="000000.arrow: no space left") as refused:
            deep(lived)
    assert str(refused.value).count("what to do") == 1, "there is no task to clear"
    assert "TMPDIR" in refused.value.advice


# ---------------------------------------------------------------- planted bugs


def some_lives(_: MirrorWorld) -> None:
    """Each is audited at its end, with purges and without."""
    for n in range(MOST_LIVES):
        live(f"audited:{n}")


FOUND_BY: dict[str, Callable[[MirrorWorld], None]] = {
    "all rows are alike": partial(test_what_no_snapshot_says_is_named, harm="a changed cell"),
    "a row has no batch": partial(
        test_what_no_snapshot_says_is_named, harm="a row that says that another event made it"
    ),
    "any tombstone may be purged": partial(test_what_another_writer_changes_is_named, harm="a dropped tombstone"),
    "tombstones that were purged are missed": some_lives,
    "a run ends within a batch": lambda lived: test_of_repeats_in_several_files_of_a_batch_the_first_stays(
        lived.folder / "apart"
    ),
    "batches above upto are read too": test_an_unharmed_table_is_balanced,
}


@pytest.mark.parametrize("name", AUDIT_BUGS)
def test_a_planted_comparison_is_found(lived: MirrorWorld, name: str) -> None:
    with Planted(AUDIT_BUGS[name]) as planted:
        with pytest.raises(AssertionError):
            FOUND_BY[name](lived)
        assert planted.never_called() == []


# ---------------------------------------------------------------- the command


def test_the_command_compares_in_a_process_of_its_own(tide: Tide, world: MirrorWorld) -> None:
    found = tide("audit", "readings", "--deep")
    print(found.output)
    assert found.exit_code == 0
    assert "2 rows and 0 tombstones in 3 buckets with what 2 events of batches 1 to 1 make" in " ".join(
        found.stdout.split()
    )
    spoilt(world, only(k2={"word": "x"}))
    harmed = tide("audit", "readings", "--deep", "--json")
    assert harmed.exit_code == 1
    told = the_json(harmed)
    assert "id=2 is a row word='x'" in told["problems"][0]["what"]
    assert told["recomputed"] == {"upto": 1, "buckets": 3, "rows": 2, "tombstones": 0, "events": 2, "kept_out": 0}
