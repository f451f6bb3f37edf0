"""A pipeline goes on at the other site, and comes back: nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.audit.audits import look
from tests.failover.sites import Copier, TwoSites
from tests.look.row_readers import InProcessRows
from tests.real_kafka import other_columns
from tests.world import TOPIC
from tidegate.core.base.errors import FailoverRefused, LostComparison, ReplayRefused, SiteNotActive
from tidegate.core.base.offsets import Interval
from tidegate.core.look.fate import NEVER_READ, NOT_READ
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.batch import ingest
from tidegate.workflow.failover import survey, switch
from tidegate.workflow.look.where import where


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TwoSites]:
    made = TwoSites(tmp_path)
    yield made
    made.close()


def landed(world: TwoSites, lost: tuple[str, ...] = ()) -> None:
    """All that producers wrote has landed once, and the audit agrees."""
    assert world.rows() == sorted(set(world.produced) - set(lost))
    assert len(set(world.produced)) == len(world.produced)
    audit = look(world)
    assert not audit.problems, audit.problems


def test_reading_goes_on_where_the_first_site_ended(world: TwoSites) -> None:
    world.write("oslo", "a", "b", "c")
    world.write("oslo", "x", "y", partition=1)
    world.drain("r1")
    world.write("oslo", "d", "e")
    world.there.run(transactions=True)
    world.fail_over()
    world.write("bergen", "f")
    world.write("bergen", "z", partition=1)
    world.drain("r2")
    landed(world)
    (event,) = world.context().ledger.failovers.history("readings")
    assert (event.site, event.before, event.number) == ("bergen", "oslo", 1)


def test_an_offset_is_told_by_the_batches_of_its_own_site(world: TwoSites) -> None:
    """Batches of the other site lie between those of the one that was active twice."""
    world.write("oslo", "a", "b")
    world.drain("r1")
    world.there.run()
    world.fail_over()
    world.write("bergen", "c", "d", "e", "f")
    world.drain("r2")
    world.note("oslo")
    (crossing, *_) = world.context().ledger.failovers.newest("readings").certificate.crossings
    Copier(world.at["bergen"], world.at["oslo"], starts={0: crossing.mark}).run()
    world.fail_over("oslo")
    world.write("oslo", "g", "h")
    world.drain("r3")
    landed(world)
    reads = world.context().ledger.reads
    told = [(offset, life) for offset in range(10) for life in reads.offsets("readings", [(0, offset)])[0].lives]
    batches = [(offset, life.topic_id, life.batch) for offset, life in told if life.batch is not None]
    assert all(batch.topic_id == topic_id for _, topic_id, batch in batches)
    assert len(batches) == len(world.produced), "each record at the site where it was read"


def test_an_open_batch_is_planned_again_at_the_other_site(world: TwoSites) -> None:
    world.write("oslo", "a", "b")
    world.drain("r1")
    world.write("oslo", "c", "d")
    ingest.plan(world.context(), "r2")
    zombie = world.context()
    world.there.run()
    world.fail_over()
    with pytest.raises(Exception, match="no batch 2|moved on"):
        ingest.write(zombie, "r2")
    world.drain("r3")
    landed(world)


def test_a_worker_of_the_first_site_that_lives_on_seals_nothing(world: TwoSites) -> None:
    world.write("oslo", "a", "b")
    ingest.plan(world.context(), "r1")
    zombie = world.context()
    run = zombie.launcher.run

    def meanwhile(path: str) -> None:
        run(path)
        world.there.run()
        world.fail_over()
        ingest.plan(world.context(), "r2")

    zombie.launcher.run = meanwhile  # type: ignore[method-assign]
    with pytest.raises((LostComparison, SiteNotActive)):
        ingest.write(zombie, "r1")
    ingest.write(world.context(), "r2")
    ingest.land(world.context(), "r2")
    landed(world)


def test_a_site_that_is_not_active_plans_nothing(world: TwoSites) -> None:
    world.write("oslo", "a")
    world.drain("r1")
    world.there.run()
    stale = world.context()
    world.fail_over()
    world.write("oslo", "never")
    with pytest.raises(SiteNotActive, match="site bergen is active, this task reads at site oslo"):
        ingest.plan(stale, "r2")


def test_what_never_crossed_is_named_and_settled_when_the_first_site_returns(world: TwoSites) -> None:
    world.write("oslo", "a", "b", "c")
    world.drain("r1")
    world.write("oslo", "d", "e", "f", "g")
    world.there.run(5)  # a to e
    failover = world.fail_over()
    assert failover.certificate.of(0).left == 5
    world.write("bergen", "h", "i")
    world.drain("r2")
    landed(world, lost=("f", "g"))
    assert [(r.partition, r.left, r.end) for r in world.note()] == [(0, 5, 7), (1, 0, 0)]
    marks = {p: failover.certificate.of(p).mark for p in (0, 1)}
    back = Copier(world.at["bergen"], world.at["oslo"], starts=marks)
    back.run(1)
    world.write("bergen", "j")
    world.drain("r3")
    back.run()
    world.fail_over("oslo")
    world.write("oslo", "k")
    world.drain("r4")
    landed(world)


def test_there_and_back_again_and_again(world: TwoSites) -> None:
    other, copier, number = {"oslo": "bergen", "bergen": "oslo"}, world.there, 0
    here = "oslo"
    for turn in range(4):
        world.write(here, f"{turn}a", f"{turn}b")
        copier.run()
        world.drain(f"r{turn}")
        world.write(here, f"{turn}c")
        copier.run(transactions=bool(turn % 2))
        failover = world.fail_over(other[here])
        world.write(here, f"{turn}never crossed")
        here, number = other[here], number + 1
        assert failover.number == number
        world.drain(f"s{turn}")
        world.note(other[here])
        marks = {c.partition: c.mark for c in failover.certificate.crossings}
        copier = Copier(world.at[here], world.at[other[here]], starts=marks)
    copier.run()
    world.fail_over(other[here])
    world.drain("last")
    landed(world)


def test_what_landed_and_never_crossed_is_reported(world: TwoSites) -> None:
    world.write("oslo", "a", "b", "c")
    world.there.run(1)
    world.drain("r1")
    crossing = world.survey().crossings[0]
    assert (crossing.landed, crossing.crossed, crossing.unknown_here) == (3, 1, 2)
    world.fail_over()
    world.write("bergen", "d")
    world.drain("r2")
    landed(world)


def test_repeats_are_not_read(world: TwoSites) -> None:
    world.write("oslo", "a", "b", "c", "d", "e")
    world.there.run(2)
    world.drain("r1")
    world.write("oslo", "f", "g")
    for start in (1, 4, 0):
        world.there.at = {0: start}
        world.there.run(partition=0)
    crossing = world.survey().crossings[0]
    assert crossing.repeats == 4
    assert crossing.stretches == (Interval(0, 6), Interval(8, 18))
    world.fail_over()
    world.write("bergen", "h")
    world.drain("r2")
    landed(world)


def test_switching_twice_by_one_plan_is_refused(world: TwoSites) -> None:
    world.write("oslo", "a")
    world.drain("r1")
    world.there.run()
    decision = world.survey()
    ctx = world.context()
    switch.apply(world.context(), decision, "one")
    with pytest.raises(LostComparison):
        switch.apply(ctx, decision, "two")


def test_a_batch_between_plan_and_run_is_noticed(world: TwoSites) -> None:
    world.write("oslo", "a")
    world.drain("r1")
    world.there.run()
    ctx = world.context()
    decision = survey.survey(ctx, "bergen", survey.Said(stopped=True))
    world.write("oslo", "b")
    world.drain("r2")
    with pytest.raises(LostComparison):
        switch.apply(ctx, decision, "too late")
    assert world.context().pipeline.source.site == "oslo"
    assert world.kafka.look(TOPIC).topic_id == "id-1"


def test_the_site_that_is_active_is_no_other(world: TwoSites) -> None:
    with pytest.raises(FailoverRefused, match="oslo of readings is the active one already"):
        world.survey("oslo")
    with pytest.raises(FailoverRefused, match="has no site tromso; there are: oslo, bergen"):
        world.survey("tromso")


def test_copies_that_are_not_read_are_no_backlog(world: TwoSites) -> None:
    world.write("oslo", "a", "b")
    world.there.run()
    world.drain("r1")
    failover = world.fail_over()
    world.write("bergen", "c", "d")
    world.drain("r2")
    world.note()
    marks = {p: failover.certificate.of(p).mark for p in (0, 1)}
    Copier(world.at["bergen"], world.at["oslo"], starts=marks).run()
    world.fail_over("oslo")
    world.drain("r3")
    ends = world.context().ledger.batches.planning_view("readings").planned_ends
    assert ends == {p: lane.high_watermark for p, lane in world.kafka.look(TOPIC).partitions.items()}
    landed(world)


def test_an_hour_of_both_sites_is_published_and_not_decoded_again(world: TwoSites) -> None:
    world.write("oslo", "a", "b")
    world.drain("r1")
    world.there.run()
    world.fail_over()
    world.write("bergen", "c")
    for partition in (0, 1):
        world.write("bergen", f"z{partition}", partition=partition, hour=3.5)
    world.drain("r2")
    assert world.archive(0).rows == 3
    other_columns(world)
    with pytest.raises(ReplayRefused, match=r"batch 1 was read at site oslo, from its topic \(id id-1\)"):
        world.replay(0)
    assert not look(world).problems


def test_a_replay_of_what_was_read_at_the_other_site(world: TwoSites) -> None:
    """Files give its rows where no column has to be decoded; the refusal says where the records are."""
    world.write("oslo", "a", "b")
    for p in (0, 1):
        world.write("oslo", f"later{p}", partition=p, hour=9)
    world.drain("one")
    world.archive(0)
    world.there.run()
    first = world.fail_over().certificate
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site))
    assert world.replay(0).generation == 2
    world.change_spec(columns=(id_, site, value, Column(name="x", type="string", path="$.id")))
    with pytest.raises(ReplayRefused) as refused:
        world.replay(0)
    topic_id = world.at["oslo"].look(TOPIC).topic_id
    said = f"batch 1 was read at site oslo, from its topic (id {topic_id}), and site bergen is active"
    assert said in str(refused.value)
    assert "once site oslo is active again" in str(refused.value)
    assert "recreated" not in str(refused.value)
    world.note("oslo")
    Copier(world.at["bergen"], world.at["oslo"], starts={c.partition: c.mark for c in first.crossings}).run()
    world.drain("two")
    world.fail_over("oslo")
    assert world.replay(0).generation == 4


def test_where_tells_of_the_site_that_was_left(world: TwoSites) -> None:
    world.write("oslo", "a")
    world.drain("one")
    world.write("oslo", "crossed")
    world.there.run()
    world.write("oslo", "left")
    world.fail_over()
    for offset, kind, said in (
        (1, NEVER_READ, "where its copy is read"),
        (2, NOT_READ, "read when oslo is active again"),
    ):
        ctx = world.context()
        fate = next(f for f in where(ctx, ctx.ledger.reads, InProcessRows(), 0, offset).fates if f.topic_id == "id-1")
        assert fate.kind == kind
        assert "site oslo was read up to 1, then site bergen took over" in fate.words
        assert said in fate.words
