"""What cannot be proven is refused by name, with both readings and their numbers, and with what to do next."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.failover.sites import Copier, TwoSites
from tests.world import TOPIC
from tidegate.core.base.errors import FailoverRefused, StorageAhead
from tidegate.core.failover.crossing import Refusal, RefusalKind
from tidegate.core.failover.decision import Decision
from tidegate.core.source.coordinates import HEADER
from tidegate.workflow.batch import ingest
from tidegate.workflow.failover import survey, switch


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TwoSites]:
    made = TwoSites(tmp_path)
    yield made
    made.close()


def only(decision: Decision) -> Refusal:
    assert len(decision.refusals) == 1, decision.refusals
    return decision.refusals[0]


def five(world: TwoSites) -> None:
    """Five records of partition 0; three have landed."""
    world.write("oslo", "a", "b", "c")
    world.drain("r1")
    world.write("oslo", "d", "e")


def bring(world: TwoSites, *coordinates: bytes | None) -> None:
    """Records with these values of the header."""
    for value in coordinates:
        headers = [] if value is None else [(HEADER, value)]
        world.at["bergen"].append(TOPIC, 0, b"{}", headers=headers)


def without_coordinates(world: TwoSites) -> None:
    world.there.plain = True
    world.there.run()


def one_without(world: TwoSites) -> None:
    world.there.run(2)
    world.there.plain = True
    world.there.run(1)
    world.there.plain = False
    world.there.run()


def a_hole(world: TwoSites) -> None:
    world.there.run(4, partition=0)
    bring(world, b"id-1:0:6:7")


def begins_above(world: TwoSites) -> None:
    world.there.at = {0: 4}
    world.there.run(partition=0)


def another_topic(world: TwoSites) -> None:
    world.there.run()
    bring(world, b"id-7:0:5:5")


def another_partition(world: TwoSites) -> None:
    """By a copier that cuts by the key: each partition holds records of several."""
    world.there.run()
    bring(world, b"id-1:1:0:0")


def invalid(world: TwoSites) -> None:
    world.there.run()
    bring(world, b"five")


def other_partitions(world: TwoSites) -> None:
    world.at["bergen"].add_partitions(TOPIC, 3)


def an_open_transaction(world: TwoSites) -> None:
    world.there.run()
    world.at["bergen"].begin(TOPIC, 0)
    bring(world, b"id-1:0:5:5")


def sealed(world: TwoSites) -> None:
    ingest.plan(world.context(), "r2")
    ingest.write(world.context(), "r2")
    world.there.run()


def too_many_repeats(world: TwoSites) -> None:
    for n in range(1001):
        bring(world, f"id-1:0:{3 + n}:{3 + n}".encode(), b"id-1:0:0:0")
    bring(world, b"id-1:0:1004:1004")


CASES: list[tuple[Callable[[TwoSites], None], RefusalKind, str]] = [
    (without_coordinates, RefusalKind.NO_COORDINATES, r"5 records from offset 0 to 4 have no header.*0 have one"),
    (one_without, RefusalKind.NO_COORDINATES, r"1 record from offset 2 to 2 have no header .*, 4 have one"),
    (
        a_hole,
        RefusalKind.HOLE,
        r"the copy at 4 is of the first record from 6 on, the one before ends at 4: offsets \[4, 6\)",
    ),
    (
        begins_above,
        RefusalKind.BEGINS_ABOVE,
        r"landed up to 3, the copies here begin at 4: offsets \[3, 4\) \(1 record",
    ),
    (
        another_topic,
        RefusalKind.OTHER_LOG,
        "offset 5 is a copy from topic id id-7, partition 0; batches are of id-1, partition 0",
    ),
    (
        another_partition,
        RefusalKind.OTHER_LOG,
        "offset 5 is a copy from topic id id-1, partition 1; batches are of id-1",
    ),
    (invalid, RefusalKind.INVALID, "offset 5: header tidegate-source is 'five'"),
    (other_partitions, RefusalKind.PARTITIONS, r"batches are of partitions \[0, 1\], site bergen has \[0, 1, 2\]"),
    (an_open_transaction, RefusalKind.TRANSACTION, "an open transaction begins at 5, the mark is 6"),
    (sealed, RefusalKind.OPEN_BATCH, "batch 2 is SEALED"),
    (too_many_repeats, RefusalKind.REPEATS, "1,001 places"),
]


@pytest.mark.parametrize(("happens", "kind", "words"), CASES)
def test_it_is_refused_by_name(world: TwoSites, happens: Callable, kind: RefusalKind, words: str) -> None:
    five(world)
    happens(world)
    decision = world.survey()
    refusal = only(decision)
    assert refusal.kind == kind
    assert re.search(words, refusal.words), refusal.words
    assert refusal.advice
    assert decision.switch is None
    with pytest.raises(FailoverRefused, match=kind.value):
        switch.apply(world.context(), decision, "all the same")
    assert world.context().pipeline.source.site == "oslo"


def test_nothing_is_switched_before_anything_was_planned(world: TwoSites) -> None:
    assert {r.kind for r in world.survey().refusals} == {RefusalKind.NOT_BEGUN}


def test_nobody_says_that_copying_has_stopped(world: TwoSites) -> None:
    five(world)
    world.there.run()
    refusal = only(world.survey(stopped=False))
    assert refusal.kind == RefusalKind.MARK
    assert "the topic there ends at 0: 5, 1: 0" in refusal.words


def test_copiers_that_are_named_are_fenced_by_a_run_alone(tmp_path: Path) -> None:
    world = TwoSites(tmp_path, copiers=("there-0", "there-1"))
    five(world)
    world.there.run()
    world.at["bergen"].begin(TOPIC, 0)  # the copier's, which is in the middle of a batch
    bring(world, b"id-1:0:5:5")
    looked = world.survey(stopped=False)
    assert (looked.refusals, looked.facts.stopped) == ((), "to be fenced: there-0, there-1")
    assert world.standbys["bergen"].fenced == []
    world.at["bergen"].abort(TOPIC, 0)
    decision = world.survey(stopped=False, fence=True)
    assert world.standbys["bergen"].fenced == ["there-0", "there-1"]
    assert decision.switch.certificate.stopped == "fenced: there-0, there-1"
    world.close()


def test_producers_that_write_already_need_a_mark(world: TwoSites) -> None:
    five(world)
    world.there.run()
    world.write("bergen", "f", "g")
    refusal = only(world.survey())
    assert "--mark 0=5" in refusal.advice
    world.fail_over(marks={0: 5})
    world.drain("r2")
    assert world.rows() == sorted(world.produced)


def test_a_copy_behind_the_mark_is_refused(world: TwoSites) -> None:
    five(world)
    world.there.run(4, partition=0)
    world.write("bergen", "f")
    world.there.run(partition=0)
    refusal = only(world.survey(marks={0: 4}))
    assert refusal.line == "mark unknown: partition 0: the record at 5 is a copy, behind the mark 4"
    assert {r.kind for r in world.survey(marks={7: 0}).refusals} == {RefusalKind.PARTITIONS}
    refusal = only(world.survey(marks={0: 9}))
    assert refusal.line.endswith("partition 0: mark 9 is not between 0 and the end 6")


def test_a_log_that_was_cut_has_two_records_at_one_coordinate(world: TwoSites) -> None:
    five(world)
    world.drain("r2")
    world.there.run()
    world.at["oslo"].truncate(TOPIC, 0, 2)
    world.write("oslo", "f")
    with pytest.raises(Exception, match="cut at offset 2"):
        world.ingest("r3")
    assert {r.kind for r in world.survey().refusals} == {RefusalKind.LOG_CUT}


def test_one_cluster_is_no_second_site(world: TwoSites) -> None:
    five(world)
    world.standbys["bergen"].kafka = world.at["oslo"]
    assert {r.kind for r in world.survey().refusals} == {RefusalKind.SAME_TOPIC}


def test_a_ledger_that_has_lost_a_batch_is_refused_first(world: TwoSites) -> None:
    five(world)
    world.there.run()
    landed = world.folder / "lake/readings/_tidegate/landed/2"
    landed.mkdir(parents=True)
    with pytest.raises(StorageAhead, match="next batch is 2, but"):
        world.survey()


def test_an_open_batch_that_has_landed_is_refused(world: TwoSites) -> None:
    five(world)
    backup = (world.folder / "ledger.db").read_bytes()
    ingest.plan(world.context(), "r2")
    planned = (world.folder / "ledger.db").read_bytes()
    ingest.write(world.context(), "r2")
    ingest.land(world.context(), "r2")
    world.close()
    assert backup != planned
    (world.folder / "ledger.db").write_bytes(planned)
    world.there.run()
    refusal = only(world.survey())
    assert refusal.line == "open batch: batch 2 is PLANNED, and storage says that it has landed"


# ---------------------------------------------------------------- the way back


def away(world: TwoSites) -> Copier:
    """Bergen is active, and has two copies below its mark that no batch has read."""
    five(world)
    world.there.run()
    world.write("oslo", "never crossed")
    certificate = world.fail_over().certificate
    return Copier(world.at["bergen"], world.at["oslo"], starts={p: certificate.of(p).mark for p in (0, 1)})


def test_not_back_before_the_end_is_noted(world: TwoSites) -> None:
    away(world)
    world.drain("r2")
    assert {r.kind for r in world.survey("oslo").refusals} == {RefusalKind.NOT_NOTED}


def test_not_back_before_all_copies_have_landed(world: TwoSites) -> None:
    away(world)
    world.note()
    refusal = only(world.survey("oslo"))
    assert refusal.kind == RefusalKind.UNREAD_COPIES
    assert "batches of site bergen end at 3, copies that were taken over reach up to 5" in refusal.words


def test_an_end_is_not_noted_once_something_was_copied_back(world: TwoSites) -> None:
    copier = away(world)
    world.write("bergen", "f")
    world.drain("r2")
    copier.run()
    with pytest.raises(FailoverRefused, match="end not noted: partition 0: the record at 6 was copied back already"):
        world.note()


def test_back_needs_coordinates_too(world: TwoSites) -> None:
    copier = away(world)
    world.write("bergen", "f")
    world.drain("r2")
    world.note()
    copier.plain = True
    copier.run()
    assert {r.kind for r in world.survey("oslo").refusals} == {RefusalKind.NO_COORDINATES}


def test_a_topic_that_was_recreated_meanwhile_gives_nothing_back(world: TwoSites) -> None:
    away(world)
    world.drain("r2")
    world.at["oslo"].create(TOPIC, 2)
    with pytest.raises(FailoverRefused, match="topic is not what it was"):
        world.note()


def test_a_first_site_that_lost_its_end_gives_nothing_back(world: TwoSites) -> None:
    away(world)
    world.drain("r2")
    world.at["oslo"].truncate(TOPIC, 0, 2)
    with pytest.raises(FailoverRefused, match="the log ends at 2, 5 offsets of it have landed or crossed"):
        world.note()


def test_a_site_that_never_was_active_gives_nothing_back(world: TwoSites) -> None:
    five(world)
    with pytest.raises(FailoverRefused, match="bergen of readings was never active"):
        switch.ends_of(world.context(), "bergen")


def test_ends_are_noted_once(world: TwoSites) -> None:
    away(world)
    found = world.note()
    with pytest.raises(Exception, match="somebody else"):
        switch.note(world.context(), "oslo", found, 1)


# ---------------------------------------------------------------- where the walk begins


def test_of_a_long_copy_the_end_alone_is_walked(world: TwoSites, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "NEAR", 4)
    world.write("oslo", *[f"a{n:03}" for n in range(60)])
    world.drain("r1")
    world.write("oslo", *[f"b{n}" for n in range(3)])
    world.there.run()
    world.there.at = {0: 50}
    world.there.run(partition=0)
    asked = world.standbys["bergen"].asked
    decision = world.survey()
    assert max((start for partition, start in asked if partition == 0), default=0) >= 55
    assert decision.crossings[0].to_read == 3
    world.fail_over()
    world.drain("r2")
    assert world.rows() == sorted(world.produced)
