"""Another number of buckets: the whole table is cut anew in one commit, and nothing else of it changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.mirror.audits import deep
from tests.mirror.worlds import YAML, MirrorWorld, event, mirror
from tidegate.core.base.errors import SpecError
from tidegate.core.mirror import recut
from tidegate.core.mirror.applies import APPLIED
from tidegate.core.mirror.balance import imbalance
from tidegate.core.mirror.counts import Counts
from tidegate.core.mirror.jobs import ApplyReceipt, BaseFile, Bucket, BucketDone, MirrorFile
from tidegate.targets.mirror import prefix
from tidegate.targets.mirror import table as target
from tidegate.workflow.apply.apply import apply


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MirrorWorld]:
    made = MirrorWorld(tmp_path)
    made.land(*(event(n, "a", 10 + n) for n in range(1, 9)))
    made.land(event(2, None, 20), event(3, "b", 21))
    yield made
    made.close()


ROWS = {1: "a", 3: "b", 4: "a", 5: "a", 6: "a", 7: "a", 8: "a"}


def wanted(world: MirrorWorld, buckets: int) -> None:
    """The YAML says another number from now on."""
    world.pipeline = mirror(world.folder, YAML.replace("buckets: 3", f"buckets: {buckets}"))


def cut(world: MirrorWorld) -> dict[int, int]:
    """Rows and tombstones by bucket."""
    keyed = world.context().keyed
    assert keyed is not None
    found = {b.number: sum(f.rows for f in b.files) for b in keyed.base()[1]}
    world.close()
    return found


def test_a_table_is_cut_into_more_and_fewer_buckets(world: MirrorWorld) -> None:
    world.apply()
    before = world.standing()
    assert before.buckets == 3
    for number, buckets in enumerate((12, 4, 1, 3)):
        wanted(world, buckets)
        done = world.apply()
        now = world.standing()
        assert (done.merges, now.buckets) == (0, buckets)
        same = {"snapshot": now.snapshot, "attempt": now.attempt, "buckets": buckets}
        assert replace(before, **same) == now, "counts stay as they are"
        assert imbalance(now) is None
        found = cut(world)
        assert (max(found) < buckets, sum(found.values())) == (True, 8)
        assert world.rows() == ROWS
        assert deep(world).problems == ()
        assert len(world.loaded().metadata.snapshots) == 2 + number
        assert world.apply().merges == 0
    world.land(event(2, "back", 30), event(1, None, 31))
    world.apply()
    assert world.rows() == {**{k: v for k, v in ROWS.items() if k != 1}, 2: "back"}
    assert deep(world).problems == ()


def test_a_cut_comes_before_merges(world: MirrorWorld) -> None:
    world.apply()
    world.land(event(9, "new", 40))
    wanted(world, 6)
    done = world.apply()
    tries = [p.attempt.partition(".")[0] for p in world.launcher.runs]  # type: ignore[union-attr]
    assert tries == ["3-2", "3-3"]
    assert (done.merges, done.told.upto, world.standing().buckets) == (1, 3, 6)
    assert world.rows() == {**ROWS, 9: "new"}


def test_any_other_number_is_refused(world: MirrorWorld) -> None:
    world.apply()
    wanted(world, 4)
    possible = "a divisor or a multiple of that: 1, 3, 6, 12, 24, 48, ...; not 4"
    with pytest.raises(SpecError, match=possible):
        world.apply()
    world.land(event(9, "new", 40))
    with pytest.raises(SpecError, match="nothing was merged"):
        world.apply()
    wanted(world, 3)
    assert world.apply().told.upto == 3


def test_a_first_merge_needs_no_cut(world: MirrorWorld) -> None:
    wanted(world, 5)
    assert world.apply().merges == 1
    assert world.standing().buckets == 5


def test_a_table_that_does_not_say_it_has_as_many_as_its_last_batch(
    world: MirrorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that did not write it has let nobody change it."""

    def silent(*asked: Any) -> dict[str, str]:
        return {k: v for k, v in prefix.summary_of(*asked).items() if not k.endswith(".buckets")}

    with monkeypatch.context() as patch:
        patch.setattr(target, "summary_of", silent)
        world.apply()
    assert world.standing().buckets == 0
    wanted(world, 6)
    world.land(event(9, "new", 40))
    assert deep(world).problems == (), "the audit knows it too"
    world.apply()
    assert world.standing().buckets == 6
    assert world.rows() == {**ROWS, 9: "new"}


def test_a_cut_that_died_is_made_anew(world: MirrorWorld) -> None:
    world.apply()
    wanted(world, 6)
    world.apply_and_die_once_upkeep_is_committed()
    assert world.apply().merges == 0
    newest = world.context().ledger.applies.newest("readings")
    assert newest is not None
    assert (newest.state, newest.apply.epoch) == (APPLIED, 2), "it was found in the table"
    assert world.standing().buckets == 6


def test_two_that_want_another_number_do_not_go_on_for_ever(world: MirrorWorld) -> None:
    world.apply()
    wanted(world, 6)
    ctx = world.context()
    assert ctx.keyed is not None
    apply_ = ctx.keyed.apply

    def other(before: Any, merged: Any, holds: Any) -> Any:
        found = apply_(before, merged, holds)
        wanted(world, 3)
        world.apply()
        return found

    ctx.keyed.apply = other  # type: ignore[method-assign]
    with pytest.raises(Exception, match="another task cuts it"):
        apply(ctx)
    assert world.rows() == ROWS


@pytest.mark.parametrize(("others", "mine"), [(1, 6), (6, 12), (12, 6), (6, 1)])
def test_another_task_cuts_it_between_a_look_and_a_cut(world: MirrorWorld, others: int, mine: int) -> None:
    """What a cut reads is told by the number of buckets that the snapshot has, not by an earlier one: nobody is told
    that a stranger has written keys into wrong buckets."""
    world.apply()
    wanted(world, mine)
    ctx = world.context()
    assert ctx.keyed is not None
    base, turns = ctx.keyed.base, [others]

    def other_first() -> Any:
        if turns:
            wanted(world, turns.pop())
            world.apply()
        return base()

    ctx.keyed.base = other_first  # type: ignore[method-assign]
    assert apply(ctx).merges == 0
    assert any(f"was cut by another task: it has {others} buckets now" in line for line in world.said)
    assert world.standing().buckets == mine
    assert world.rows() == ROWS
    assert deep(world).problems == ()
    newest = ctx.ledger.applies.newest("readings")
    assert newest is not None
    assert newest.state == APPLIED


# ---------------------------------------------------------------- the rules


@pytest.mark.parametrize(
    ("before", "wanted", "possible"), [(64, 64, True), (64, 128, True), (64, 192, True), (64, 1, True), (64, 96, False)]
)
def test_multiples_and_divisors(before: int, wanted: int, possible: bool) -> None:
    assert (recut.refusal(before, wanted) is None) is possible


def test_a_receipt_of_a_cut_must_have_all_rows() -> None:
    class Plan:
        events, whole, buckets, cut_before = (), False, 4, 2
        base = (Bucket(0, (BaseFile("a", 5, 1),)), Bucket(1, (BaseFile("b", 3, 1),)))

    def done(number: int, rows: int, tombstones: int = 0) -> BucketDone:
        path = f"p{number}"
        return BucketDone(number, True, Counts(), (MirrorFile(path, 9, rows, tombstones),), rows, tombstones)

    def said(*buckets: BucketDone) -> str:
        receipt = ApplyReceipt("3-2.1-x", (), buckets)
        return " ".join(recut.errors(Plan(), receipt, {"p0": 9, "p1": 9, "p2": 9, "p3": 9}))  # type: ignore[arg-type]

    right = (done(0, 4, 1), done(2, 1), done(1, 2), done(3, 1))
    assert said(*right) == ""
    assert said(done(0, 4, 1), done(2, 1), done(1, 3)) == ""
    assert "buckets 1 modulo 2: 2 rows, before it was cut 3" in said(*right[:3])
    assert "buckets 0 modulo 2: 5 rows" not in said(*right)
    assert "buckets 0 modulo 2: 6 rows, before it was cut 5" in said(done(0, 5), *right[1:])
    assert "bucket 3 is listed twice" in said(*right, done(3, 0))
    assert "bucket 4 is not one of 0 to 3" in said(*right, done(4, 0))
    assert "were cut" in said(replace(right[0], rows_before=5), *right[1:])
