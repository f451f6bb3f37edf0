"""A copier that is started again after it was fenced: what it brings behind the mark is kept, and not read twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.audit.audits import look
from tests.dirty import redrives
from tests.failover.sites import Copier, TwoSites
from tests.world import TOPIC
from tidegate.core.spec.pipeline import Column


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TwoSites]:
    made = TwoSites(tmp_path)
    yield made
    made.close()


def dirty(world: TwoSites) -> list[tuple[str, str]]:
    """(id, reason) of all dirty rows, in the files of all batches."""
    import pyarrow.parquet as pq

    found = []
    for path in (world.folder / "lake/readings").rglob("*dirty*/**/*.parquet"):
        for row in pq.read_table(path).to_pylist():
            found.append((json.loads(row["raw_value"])["id"], row["reason"]))
    return sorted(set(found))


def switched(world: TwoSites) -> None:
    """Oslo is lost; two of its records have not crossed."""
    world.write("oslo", "a", "b")
    world.drain("one")
    world.there.run()
    world.write("oslo", "c", "d")
    world.fail_over()
    world.write("bergen", "e")


def odd(world: TwoSites) -> None:
    """A record that is dirty until the spec is mended."""
    world.at["bergen"].append(TOPIC, 0, json.dumps(redrives.odd("odd", 0.3)).encode())
    world.produced.append("odd")


def comes_back(world: TwoSites) -> None:
    """Oslo is active again, and all of its records are read."""
    world.note("oslo")
    marks = {p.partition: p.mark for p in world.context().ledger.failovers.newest("readings").certificate.crossings}
    world.close()
    back = Copier(world.at["bergen"], world.at["oslo"], starts=marks)
    back.run()
    world.write("bergen", "g")
    back.run()
    world.fail_over("oslo")
    world.write("oslo", "h")
    world.drain("three")


def published_and_replayed(world: TwoSites, rows: int) -> None:
    """The first hour has so many rows, and the same ones once it is rebuilt."""
    for p in (0, 1):
        world.write("bergen", f"later{p}", partition=p, hour=9)
    world.drain("two")
    world.archive(0)
    read = world.table()
    assert len(read) == rows
    world.change_spec(columns=(*world.pipeline.columns, Column(name="x", type="string", path="$.id")))
    assert world.replay(0).generation == 2
    assert world.table() == read
    assert not look(world).problems


def test_what_never_crossed_is_not_read_where_a_copier_brings_it_late(world: TwoSites) -> None:
    switched(world)
    world.there.run()  # it was started again: c and d lie behind e
    world.write("bergen", "f")
    world.drain("two")
    assert world.rows() == ["a", "b", "e", "f"]
    assert [one for one, _ in dirty(world)] == ["c", "d"]
    assert all("behind the mark" in reason for _, reason in dirty(world))
    assert not look(world).problems, "they are counted"


def test_repeats_behind_the_mark_are_not_read_again(world: TwoSites) -> None:
    switched(world)
    world.there.at = {}
    world.there.run()
    world.drain("two")
    assert world.rows() == ["a", "b", "e"]
    assert [one for one, _ in dirty(world)] == ["a", "b", "c", "d"]


def test_they_land_once_when_the_first_site_is_active_again(world: TwoSites) -> None:
    switched(world)
    world.there.run()
    world.drain("two")
    comes_back(world)
    assert world.rows() == sorted(world.produced)
    assert not look(world).problems


def test_a_site_where_they_have_not_landed_comes_back(world: TwoSites) -> None:
    """They are known for what they are: its end is noted behind them."""
    switched(world)
    world.drain("two")
    first = world.note("oslo")
    assert [(one.left, one.end) for one in first] == [(2, 4), (0, 0)]
    marks = {p.partition: p.mark for p in world.context().ledger.failovers.newest("readings").certificate.crossings}
    Copier(world.at["bergen"], world.at["oslo"], starts=marks).run()
    world.there.run()
    third = world.fail_over("oslo")
    world.write("bergen", "f")
    world.write("oslo", "g")
    world.drain("three")
    assert [(one.left, one.end) for one in world.note("bergen")] == [(3, 6), (0, 0)]
    Copier(
        world.at["oslo"], world.at["bergen"], starts={c.partition: c.mark for c in third.certificate.crossings}
    ).run()
    world.fail_over()
    world.drain("four")
    assert world.rows() == sorted(world.produced)
    assert [one for one, _ in dirty(world)] == ["c", "d"]
    assert not look(world).problems


def test_a_partition_that_came_after_the_switch_holds_nothing_but_its_own(world: TwoSites) -> None:
    switched(world)
    for site in ("oslo", "bergen"):
        world.at[site].add_partitions(TOPIC, 3)
    world.write("oslo", "c2", "d2", partition=2)
    world.write("bergen", "e2", partition=2)
    world.there.run()
    world.write("bergen", "f2", partition=2)
    world.drain("two")
    assert world.rows() == ["a", "b", "e", "e2", "f2"]
    world.note("oslo")
    marks = {p.partition: p.mark for p in world.context().ledger.failovers.newest("readings").certificate.crossings}
    world.close()
    Copier(world.at["bergen"], world.at["oslo"], starts=marks).run()
    world.fail_over("oslo")
    world.drain("three")
    assert world.rows() == sorted(world.produced)
    assert not look(world).problems


def test_a_replay_decides_as_the_batch_did(world: TwoSites) -> None:
    """It reads the topic again, where the copies lie among the others."""
    world.write("oslo", "a", hour=2.1)
    world.drain("zero")
    world.there.run()
    world.write("oslo", "c", "d")
    world.fail_over()
    world.write("bergen", "e")
    world.there.run()
    world.write("bergen", "f")
    world.drain("one")
    published_and_replayed(world, 2)


def test_a_redrive_leaves_them_where_they_are(world: TwoSites) -> None:
    """A spec is mended: other dirty rows become data, and these are read at the site that they are copies of."""
    switched(world)
    world.there.run()
    odd(world)
    world.drain("two")
    assert [one for one, _ in dirty(world)] == ["c", "d", "odd"]
    redrives.mend(world)
    done = redrives.redriven(world)
    assert done is not None
    assert (done.data, done.dirty) == (1, 2)
    assert not look(world).problems
    comes_back(world)
    assert world.rows() == sorted(world.produced)
    assert not look(world).problems


def test_a_person_who_gives_the_site_up_takes_them(world: TwoSites) -> None:
    switched(world)
    world.there.run()
    world.drain("two")
    for asked, data in ((False, 0), (True, 2)):
        done = redrives.redriven(world, f"redrive {asked}", copies=asked)
        assert done is not None
        assert done.data == data
        assert ("it is read there" in done.refused) is not asked
    assert world.rows() == ["a", "b", "c", "d", "e"]
    assert not look(world).problems


def test_a_replay_of_what_a_redrive_has_left_decides_as_it_did(world: TwoSites) -> None:
    world.write("oslo", "a", hour=2.1)
    world.drain("zero")
    world.there.run()
    world.write("oslo", "c", "d")
    world.fail_over()
    odd(world)
    world.there.run()
    world.drain("one")
    redrives.mend(world)
    done = redrives.redriven(world)
    assert done is not None
    assert (done.data, done.dirty) == (1, 2)
    published_and_replayed(world, 1)
