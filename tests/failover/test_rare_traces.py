"""Traces that few would think of: retention in the middle of copies, a cut log, a third site, partitions that come
later, first batches that are withdrawn at both sites, a switch that is adopted before the batches before it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.failover.sites import Copier, FakeStandby, TwoSites
from tests.failover.test_refusals import only
from tests.failover.test_there_and_back import landed
from tests.fakes.kafka import FakeKafka
from tests.world import TOPIC
from tidegate.core.base.errors import FailoverRefused, LostComparison
from tidegate.core.failover.crossing import RefusalKind
from tidegate.core.spec.pipeline import Site
from tidegate.workflow.batch import ingest
from tidegate.workflow.failover import records, switch
from tidegate.workflow.restore import adoption
from tidegate.workflow.source import log_cut


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TwoSites]:
    made = TwoSites(tmp_path)
    yield made
    made.close()


def back_from(world: TwoSites, certificate: object) -> Copier:
    """A copier from Bergen to Oslo that begins where Bergen's own records do."""
    starts = {c.partition: c.mark for c in certificate.crossings}  # type: ignore[attr-defined]
    return Copier(world.at["bergen"], world.at["oslo"], starts=starts)


def test_retention_that_ends_among_repeats_lets_none_of_them_be_read(world: TwoSites) -> None:
    world.change_spec(source=replace(world.pipeline.source, on_data_loss="record"))
    world.write("oslo", "a", "b", "c")
    world.drain("r1")
    world.write("oslo", "d", "e")
    world.there.run()
    world.there.at[0] = 0
    world.there.run(partition=0)  # all five come again, at [5, 10)
    world.fail_over()
    world.write("bergen", "f")
    world.at["bergen"].trim(TOPIC, 0, 6)  # d and e are gone before they were read
    world.drain("r2")
    landed(world, lost=("d", "e"))


def test_a_site_whose_log_was_cut_and_skipped_is_refused_as_one_that_was_read_again(world: TwoSites) -> None:
    world.write("oslo", "a", "b", "c", "d")
    world.ingest("r1")
    world.write("oslo", "lost in oslo")
    world.there.run()
    oslo = world.at["oslo"]
    oslo.truncate(TOPIC, 0, 3)
    world.produced = [one for one in world.produced if one not in ("d", "lost in oslo")]
    world.write("oslo", "instead of d", "new")
    (cut,) = log_cut.survey(world.context())
    log_cut.settle(world.context(), cut, skip=True, why="d was enough")
    world.there.run()  # offset 4 is two records, of which one has crossed
    assert only(world.survey()).kind == RefusalKind.LOG_CUT


def test_copies_of_a_site_between_are_no_records_of_the_one_that_returns(world: TwoSites) -> None:
    """Oslo -> Bergen -> Tromso; what was copied back to Oslo from Bergen must not be noted as Oslo's own."""
    third = FakeKafka()
    third._created = 200
    third.create(TOPIC, 2)
    world.at["tromso"], world.standbys["tromso"] = third, FakeStandby(third)
    sites = (*world.pipeline.source.sites, Site(name="tromso", conn_id="kafka_3"))
    world.change_spec(source=replace(world.pipeline.source, sites=sites))
    world.write("oslo", "a", "b")
    world.there.run()
    world.drain("r1")
    first = world.fail_over().certificate
    world.write("bergen", "c", "d")
    world.drain("r2")
    world.note("oslo")
    back_from(world, first).run()
    Copier(world.at["bergen"], third).run()
    world.fail_over("tromso")
    world.drain("r3")
    with pytest.raises(FailoverRefused, match="was copied back already"):
        world.note("oslo")


def test_ends_are_not_noted_after_a_switch_that_came_between(world: TwoSites) -> None:
    """Its operator may have noted them too, and copied since: without coordinates nobody tells such copies apart."""
    world.write("oslo", "a", "b")
    world.there.run()
    world.drain("r1")
    first = world.fail_over().certificate
    found, before = switch.ends_of(world.context(), "oslo"), world.context().ledger.failovers.newest("readings")
    assert before is not None
    world.note("oslo")
    back_from(world, first).run()
    world.fail_over("oslo")
    world.drain("r2")
    with pytest.raises(LostComparison, match="failover 2 of readings is the newest one, not 1"):
        switch.note(world.context(), "oslo", found, before.number)


def test_a_switch_is_adopted_before_the_batches_that_came_before_it(world: TwoSites) -> None:
    world.write("oslo", "a", "b")
    world.drain("r1")
    world.close()
    shutil.copy(world.database, world.folder / "backup.db")
    world.write("oslo", "c")
    world.drain("r2")
    world.there.run()
    world.fail_over()
    world.close()
    shutil.copy(world.folder / "backup.db", world.database)
    records.adopt(world.context(), "a replica was promoted")
    ctx = world.context()
    adoption.adopt(ctx, adoption.survey(ctx), "the same")
    world.write("bergen", "d")
    world.drain("r3")
    landed(world)


def test_a_partition_that_came_after_the_note_is_all_copies(world: TwoSites) -> None:
    world.write("oslo", "a")
    world.there.run()
    world.drain("r1")
    certificate = world.fail_over().certificate
    world.note()
    world.at["bergen"].add_partitions(TOPIC, 3)
    world.write("bergen", "b", partition=2)
    world.drain("r2")
    world.at["oslo"].add_partitions(TOPIC, 3)
    back_from(world, certificate).run()
    world.fail_over("oslo")
    world.write("oslo", "c", partition=2)
    world.drain("r3")
    landed(world)


def test_a_first_batch_that_was_withdrawn_at_each_site_leaves_both_beginnings(world: TwoSites) -> None:
    world.write("oslo", "before the start", "and this")
    world.produced.clear()
    world.change_spec(source=replace(world.pipeline.source, start="latest"))
    world.there.run()
    ingest.plan(world.context(), "r1")
    certificate = world.fail_over().certificate
    world.write("bergen", "a")
    ingest.plan(world.context(), "r2")
    world.note()
    back_from(world, certificate).run()
    world.fail_over("oslo")
    world.drain("r3")
    landed(world)


def test_a_copier_that_goes_on_while_it_is_looked_at_is_noticed(world: TwoSites) -> None:
    world.write("oslo", "a", "b", "c")
    world.drain("r1")
    world.there.run(2)
    records = world.standbys["bergen"].records

    def goes_on(*given: object) -> object:
        world.there.run(1)
        return records(*given)  # type: ignore[arg-type]

    world.standbys["bergen"].records = goes_on  # type: ignore[assignment, method-assign]
    refused = world.survey().refusals
    assert {r.kind for r in refused} == {RefusalKind.MARK}
    assert "the record at 2 is a copy, behind the mark 2" in refused[0].words


def test_where_the_log_was_cut_stretches_of_copies_end(world: TwoSites) -> None:
    """What takes the freed offsets of copies is no copy."""
    world.write("oslo", "a", "b")
    world.there.run()
    world.drain("r1")
    world.fail_over()
    world.write("bergen", "c")
    world.drain("r2")
    world.at["bergen"].truncate(TOPIC, 0, 1)
    world.write("bergen", "instead of the copy of b", "d", "e")
    (cut,) = log_cut.survey(world.context())
    log_cut.settle(world.context(), cut, skip=False, why="read again")
    world.drain("r3")
    landed(world)


@pytest.mark.parametrize("noted", [False, True], ids=["before the note", "after it"])
def test_a_site_that_returns_with_its_log_cut_is_refused(world: TwoSites, noted: bool) -> None:
    world.write("oslo", "a", "b", "c")
    world.there.run()
    world.drain("r1")
    certificate = world.fail_over().certificate
    if noted:
        world.note()
        back_from(world, certificate).run()
    world.at["oslo"].truncate(TOPIC, 0, 1)
    world.write("oslo", "x", "y", "z")
    words = "partition 0: the log of site oslo was cut at offset 1, and batches have landed up to 3"
    if noted:
        assert words in " ".join(r.words for r in world.survey("oslo").refusals)
    else:
        with pytest.raises(FailoverRefused, match=words):
            world.note()
