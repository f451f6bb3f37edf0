"""The ledger's replica is promoted, and lacks the switch: storage knows it, and gives it back (R11)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.failover.sites import Copier, TwoSites
from tests.failover.test_there_and_back import landed
from tidegate.core.base.errors import AskedWrong, StorageAhead
from tidegate.core.failover.decision import Decision
from tidegate.core.failover.states import Failover
from tidegate.workflow.base import switches
from tidegate.workflow.batch import ingest
from tidegate.workflow.failover import records, switch
from tidegate.workflow.restore import adoption


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TwoSites]:
    made = TwoSites(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("open_batch", [False, True], ids=["no batch was open", "a batch was open"])
@pytest.mark.parametrize("more", [0, 2], ids=["no batch", "two batches"])
def test_a_switch_that_the_ledger_lost_is_adopted(world: TwoSites, more: int, open_batch: bool) -> None:
    world.write("oslo", "a", "b")
    world.drain("r1")
    world.write("oslo", "c", "d")
    world.there.run(3)
    if open_batch:
        ingest.plan(world.context(), "r2")
    world.close()
    shutil.copy(world.database, world.folder / "backup.db")
    certificate = world.fail_over().certificate
    for n in range(more):
        world.write("bergen", f"e{n}")
        world.ingest(f"s{n}")
    world.close()
    shutil.copy(world.folder / "backup.db", world.database)

    for task in (lambda: ingest.plan(world.context(), "r3"), world.survey):
        if open_batch and task is not world.survey:
            continue  # it goes on with the batch that the ledger has open, and seals nothing: see below
        with pytest.raises(StorageAhead, match="knows 0 switches of the site, but .*failovers/1 exists"):
            task()
    (record,) = records.adopt(world.context(), "a replica was promoted")
    assert record.failover.certificate == certificate
    ctx = world.context()
    assert ctx.pipeline.source.site == "bergen"
    adoption.adopt(ctx, adoption.survey(ctx), "the same")
    world.write("bergen", "f")
    world.drain("r4")
    landed(world, lost=("d",))
    world.note()
    Copier(world.at["bergen"], world.at["oslo"], starts={p: certificate.of(p).mark for p in (0, 1)}).run()
    world.fail_over("oslo")
    world.drain("r5")
    landed(world)


def test_a_batch_that_a_lost_switch_withdrew_is_not_sealed(world: TwoSites) -> None:
    """The first site answers, and its batch could be written: its records have landed from the other one."""
    world.write("oslo", "a", "b")
    world.there.run()
    ingest.plan(world.context(), "r1")
    world.close()
    shutil.copy(world.database, world.folder / "backup.db")
    world.fail_over()
    world.drain("s")
    world.close()
    shutil.copy(world.folder / "backup.db", world.database)
    with pytest.raises(StorageAhead):
        ingest.write(world.context(), "r1")
    assert world.rows() == ["a", "b"]


def test_a_batch_of_the_first_site_is_not_sealed_behind_a_lost_switch(world: TwoSites) -> None:
    """No batch has landed since: the record of the switch alone tells."""
    world.write("oslo", "a", "b")
    world.there.run()
    ingest.plan(world.context(), "r1")
    world.close()
    shutil.copy(world.database, world.folder / "backup.db")
    world.fail_over()
    world.close()
    shutil.copy(world.folder / "backup.db", world.database)
    with pytest.raises(StorageAhead, match="knows 0 switches of the site"):
        ingest.write(world.context(), "r1")
    records.adopt(world.context(), "a replica was promoted")
    world.drain("r2")
    landed(world)


def test_a_site_that_was_read_on_behind_a_lost_switch_is_refused(world: TwoSites) -> None:
    world.write("oslo", "a", "b")
    world.drain("r0")
    world.write("oslo", "c")
    world.there.run()
    world.close()
    shutil.copy(world.database, world.folder / "backup.db")
    world.fail_over()
    world.close()
    shutil.copy(world.folder / "backup.db", world.database)
    path = world.folder / "lake/readings/_tidegate/failovers/1"
    hidden = path.rename(path.with_name("hidden"))
    world.drain("by a host that does not see it")
    hidden.rename(path)
    with pytest.raises(StorageAhead, match=r"end at 3, at failover 1 at 2: offsets \[2, 3\) would come twice"):
        records.adopt(world.context(), "a replica was promoted")


def test_a_command_that_died_behind_the_switch_leaves_the_record_to_the_next_plan(world: TwoSites) -> None:
    world.write("oslo", "a")
    world.drain("r1")
    world.there.run()
    world.fail_over()
    path = world.folder / "lake/readings/_tidegate/failovers/1"
    path.unlink()
    world.write("bergen", "b")
    world.drain("r2")
    assert path.is_file()


def test_there_is_nothing_to_adopt(world: TwoSites) -> None:
    with pytest.raises(AskedWrong, match="has lost no switch"):
        records.adopt(world.context(), "why not")


def lose_anothers_switch(world: TwoSites) -> tuple[Decision, Failover]:
    """Two operators: one has a plan, the other switches, and a replica without that is promoted. The plan fits it."""
    world.write("oslo", "a", "b")
    world.there.run()
    world.drain("r1")
    plan = world.survey(fence=True)
    world.close()
    shutil.copy(world.database, world.folder / "backup.db")
    world.write("bergen", "c")
    done = world.fail_over(marks={0: 2})
    world.close()
    shutil.copy(world.folder / "backup.db", world.database)
    return plan, done


def test_a_plan_of_before_the_ledger_lost_a_switch_is_not_applied(world: TwoSites) -> None:
    plan, done = lose_anothers_switch(world)
    with pytest.raises(StorageAhead, match="knows 0 switches of the site"):
        switch.apply(world.context(), plan, "mine")
    assert world.context().ledger.failovers.newest("readings") is None
    (record,) = records.adopt(world.context(), "a replica was promoted")
    assert record.failover == done


def test_two_switches_of_one_number_are_never_read_by(world: TwoSites, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replica is promoted after the plan was compared with storage."""
    plan, _ = lose_anothers_switch(world)
    monkeypatch.setattr(switches, "check", lambda ctx: None)
    with pytest.raises(StorageAhead, match="failover 1 to site bergen .* is another one in storage"):
        switch.apply(world.context(), plan, "mine")
    monkeypatch.undo()
    with pytest.raises(StorageAhead, match="is another one in storage"):
        ingest.plan(world.context(), "r2")
