"""The rules of a failover (F1 to F6): what copies prove, what refuses, and where reading goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.base.offsets import Interval
from tidegate.core.batch.states import (
    REDRIVE,
    DirtySource,
    Loss,
    PartitionPlan,
    Plan,
    PlannedBatch,
    SealedBatch,
    WritingBatch,
)
from tidegate.core.failover import crossing as crossings
from tidegate.core.failover.crossing import Crossing, Refusal, RefusalKind, Walk
from tidegate.core.failover.decision import Facts, base_of, decide, landed_ends, objections, went_on
from tidegate.core.failover.states import Certificate, Failover
from tidegate.core.source.coordinates import OWN, Coordinate, coordinate_of
from tidegate.core.source.port import Lane, LogState
from tidegate.core.window.lateness import Floor

# ---------------------------------------------------------------- coordinates


def test_a_coordinate_is_read_as_it_was_written() -> None:
    assert coordinate_of([]) is None
    for made in (Coordinate("id", 3, 5, 9), Coordinate("id", 0, 7, 7), Coordinate("id", 0, 7, 7, "other"),
                 Coordinate("id", 0, 1, 2, OWN)):  # fmt: skip
        assert coordinate_of([made.text()]) == made


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([b"id:0:1:1", b"id:0:1:1"], "^2 headers"),
        ([None], "is '', not"),
        ([b"id:0:1"], "is 'id:0:1', not"),
        ([b"id:0:1:2:"], "is 'id:0:1:2:', not"),
        ([b"id:0:1:2:a:b"], "is 'id:0:1:2:a:b', not"),
        ([b"x" * 70], "is '" + "x" * 60 + "', not"),
        ([b"\xff:0:5:4"], "is '\ufffd:0:5:4': its first offset is above its offset$"),
        ([b"i" * 57 + b":0:5:4"], "is '" + "i" * 57 + ":0:': its first"),
    ],
)
def test_an_invalid_coordinate_is_told(values: list[bytes | None], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        coordinate_of(values)


# ---------------------------------------------------------------- the walk over copies


def walk(*seen: tuple[int, bytes | None], landed: int = 3, base: int = 0, mark: int = 10) -> Crossing:
    """`seen`: offset here, and the header's value."""
    made = Walk(partition=1, topic_id="id", landed=landed, base=base, mark=mark)
    for offset, value in seen:
        if not made.see(offset, [] if value is None else [value]):
            break
    return made.end()


def of(first: int, offset: int | None = None, partition: int = 1, topic: str = "id") -> bytes:
    return Coordinate(topic, partition, first, first if offset is None else offset).text()


def test_reading_goes_on_at_the_first_copy_of_what_has_not_landed() -> None:
    found = walk((0, of(1)), (1, of(2)), (2, of(3)), (3, of(4)), mark=4)
    assert found == Crossing(
        partition=1, landed=3, crossed=5, base=0, mark=4, copies=4, to_read=2, repeats=0, stretches=(Interval(0, 2),)
    )
    assert (found.left, found.unknown_here) == (5, 0)


def test_a_record_that_was_copied_again_is_skipped() -> None:
    """Also where the copier went back below what has landed: that part is no repeat of what is read here."""
    found = walk((0, of(3)), (1, of(4)), (2, of(2)), (3, of(3)), (4, of(4)), (5, of(5)), (6, of(5)), mark=8)
    assert found.stretches == (Interval(2, 5), Interval(6, 8))
    assert (found.copies, found.to_read, found.repeats, found.crossed) == (7, 3, 3, 6)


def test_nothing_is_read_below_the_base() -> None:
    assert walk((7, of(3)), base=5).stretches == (Interval(5, 7),)
    assert walk((5, of(3)), base=5).stretches == ()


def test_without_a_copy_all_up_to_the_mark_is_skipped() -> None:
    found = walk(base=2, mark=9)
    assert (found.stretches, found.crossed, found.refusals) == ((Interval(2, 9),), None, ())
    assert (found.left, found.unknown_here) == (3, 3)
    assert walk(base=9, mark=9).stretches == ()


def test_offsets_without_a_record_there_are_no_hole() -> None:
    found = walk((0, of(0, 5)), (1, of(6, 8)), landed=3)
    assert (found.refusals, found.to_read, found.crossed) == ((), 2, 9)


def test_the_greatest_copy_counts_not_the_last_one() -> None:
    assert walk((0, of(0)), (1, of(1)), (2, of(0)), landed=9).crossed == 2
    assert walk((0, of(0)), (1, of(1)), landed=9).unknown_here == 7


def test_copies_that_begin_above_and_copies_that_lack_some_are_told_apart() -> None:
    (above,) = walk((0, of(5))).refusals
    assert (above.kind, above.words) == (
        RefusalKind.BEGINS_ABOVE,
        "partition 1: batches have landed up to 3, the copies here begin at 5: offsets [3, 5) (2 records at most)",
    )
    (hole,) = walk((0, of(3)), (1, of(6)), (2, of(99))).refusals
    assert (hole.kind, hole.words) == (
        RefusalKind.HOLE,
        "partition 1: the copy at 1 is of the first record from 6 on, the one before ends at 4: "
        "offsets [4, 6) (2 records at most) never crossed",
    )
    assert above.advice
    assert hole.advice
    assert hole.advice != above.advice


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"odd", RefusalKind.INVALID),
        (of(3, partition=0), RefusalKind.OTHER_LOG),
        (of(3, topic="other"), RefusalKind.OTHER_LOG),
    ],
)
def test_what_is_no_copy_of_this_partition_ends_the_walk(value: bytes, kind: RefusalKind) -> None:
    made = Walk(partition=1, topic_id="id", landed=3, base=0, mark=10)
    assert made.see(0, [of(3)]) is True
    assert made.see(4, [value]) is False
    (refusal,) = made.end().refusals
    assert refusal.kind == kind
    assert refusal.words.startswith("partition 1: offset 4")
    assert refusal.advice
    assert refusal.line == f"{kind}: {refusal.words}"


def test_records_without_a_coordinate_are_counted_to_the_end() -> None:
    """The advice names the first of them: what producers wrote themselves begins there."""
    (refusal,) = walk((0, of(3)), (4, None), (5, of(4)), (6, None), (8, None)).refusals
    assert refusal.kind == RefusalKind.NO_COORDINATES
    assert "3 records from offset 4 to 8 have no header" in refusal.words
    assert "2 have one; below the mark 10" in refusal.words
    assert refusal.advice.endswith("--mark 1=4")
    assert "1 record from offset 4 to 4" in walk((4, None)).refusals[0].words


def test_too_many_places_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossings, "MOST_STRETCHES", 2)
    copies = [(0, of(3)), (1, of(3)), (2, of(4)), (3, of(4)), (4, of(5)), (5, of(5)), (6, of(6))]
    assert walk(*copies[:5], mark=5).refusals == ()
    (refusal,) = walk(*copies, mark=7).refusals
    assert refusal.kind == RefusalKind.REPEATS
    assert "3 records were copied again, in 3 places" in refusal.words
    assert refusal.advice


# ---------------------------------------------------------------- where batches end


def lane(end: int, stable: int | None = None) -> Lane:
    return Lane(0, end if stable is None else stable, end)


TOPIC = LogState(topic="t", topic_id="there", partitions={0: lane(20), 1: lane(30)})
PLAN = Plan(
    pipeline="p",
    batch_id=5,
    revision=1,
    spec_version=2,
    rules_version=3,
    topic="t",
    topic_id="here",
    clock_ms=9,
    floor=Floor(0, ()),
    partitions=(PartitionPlan(partition=1, start=4, end=9, log_start=0, last_stable_offset=9, high_watermark=9),),
)
SENT_AGAIN = replace(PLAN, kind=REDRIVE, sources=(DirtySource(1, 1, 1, 0, 0),))


def test_f4_an_open_batch_is_planned_again_so_its_ranges_do_not_count() -> None:
    ends = {0: 7, 1: 9}
    assert landed_ends(ends, None, {}) == ends
    assert landed_ends(ends, PlannedBatch(PLAN), {}) == {0: 7, 1: 4}
    assert landed_ends(ends, WritingBatch(PLAN, 1, "n"), {}) == {0: 7, 1: 4}
    assert landed_ends(ends, SealedBatch(PLAN, 1, "n", None), {}) == ends  # type: ignore[arg-type]
    assert landed_ends(ends, PlannedBatch(SENT_AGAIN), {}) == ends, "it reads no topic"


def test_f4_its_losses_are_found_again() -> None:
    lost = replace(PLAN, losses=(Loss(1, 2, 4, "gone"), Loss(0, 7, 8, "gone")))
    assert landed_ends({0: 7, 1: 9}, PlannedBatch(lost), {}) == {0: 7, 1: 2}
    later = replace(PLAN, losses=(Loss(1, 6, 8, "gone"),))
    assert landed_ends({0: 7, 1: 9}, PlannedBatch(later), {}) == {0: 7, 1: 4}


def test_f6_ends_within_a_stretch_lie_behind_it() -> None:
    assert landed_ends({0: 7, 1: 9}, None, {0: (Interval(5, 8),)}) == {0: 8, 1: 9}


# ---------------------------------------------------------------- what refuses

CROSSED = Crossing(partition=0, landed=7, crossed=9, base=0, mark=20, stretches=(Interval(0, 3),))
CERTIFICATE = Certificate(topic="t", before_topic_id="old", topic_id="here", stopped="said", crossings=(CROSSED,))
NEWEST = Failover(number=3, site="oslo", before="bergen", certificate=CERTIFICATE, why="", at_ms=1)
FACTS = Facts(
    pipeline="p",
    version=4,
    site="bergen",
    before="oslo",
    before_topic_id="here",
    topic=TOPIC,
    landed={0: 7, 1: 9},
    marks={0: 20, 1: 30},
    stopped="said",
    batch=None,
)
RETURNS = replace(FACTS, known_topic_id="there", noted={0: 5, 1: 0})


def refusals(facts: Facts) -> list[Refusal]:
    found = objections(facts)
    assert all(r.advice and r.words for r in found)
    return found


def kinds(facts: Facts) -> list[RefusalKind]:
    return [r.kind for r in refusals(facts)]


def test_nothing_refuses_a_site_that_is_as_it_has_to_be() -> None:
    assert kinds(FACTS) == kinds(RETURNS) == []
    assert (FACTS.has_been_active, RETURNS.has_been_active) == (False, True)
    assert CERTIFICATE.of(0) is CROSSED
    assert CERTIFICATE.of(1) is None


def test_f3_somebody_says_that_copying_has_stopped() -> None:
    (refusal,) = refusals(replace(FACTS, stopped=""))
    assert refusal.kind == RefusalKind.MARK
    assert refusal.words.endswith("site bergen has stopped; the topic there ends at 0: 20, 1: 30")
    assert refusal.advice
    behind = went_on(FACTS, 1, 33)
    assert (behind.kind, behind.words) == (
        RefusalKind.MARK, "partition 1: the record at 33 is a copy, behind the mark 30",
    )  # fmt: skip
    assert behind.advice


@pytest.mark.parametrize(
    ("batch", "has_landed", "refused"),
    [
        (PlannedBatch(PLAN), False, False),
        (WritingBatch(PLAN, 1, "n"), False, False),
        (PlannedBatch(PLAN), True, True),
        (WritingBatch(PLAN, 1, "n"), True, True),
        (PlannedBatch(SENT_AGAIN), False, True),
        (SealedBatch(PLAN, 1, "n", None), False, True),
    ],
)
def test_f4_only_a_batch_that_can_be_withdrawn_may_be_open(batch, has_landed: bool, refused: bool) -> None:
    found = objections(replace(FACTS, batch=batch, has_landed=has_landed))
    assert [r.kind for r in found] == [RefusalKind.OPEN_BATCH] * refused
    if refused:
        withdrawn = has_landed and not isinstance(batch, SealedBatch)
        assert found[0].words == f"batch 5 is {batch.state}" + (
            ", and storage says that it has landed" if withdrawn else ""
        )
        assert "p.ingest" in found[0].advice


def test_without_a_batch_there_is_nothing_to_go_on_from() -> None:
    assert kinds(replace(FACTS, landed={}, marks={}, stopped="")) == [RefusalKind.NOT_BEGUN, RefusalKind.MARK]


def test_one_topic_is_no_second_site() -> None:
    same = replace(FACTS, topic=replace(TOPIC, topic_id="here"), was_cut=True)
    assert kinds(same) == [RefusalKind.SAME_TOPIC]


def test_a_log_that_was_cut_gives_no_coordinates() -> None:
    assert kinds(replace(FACTS, was_cut=True)) == [RefusalKind.LOG_CUT]


def test_both_topics_have_the_same_partitions() -> None:
    (refusal,) = refusals(replace(FACTS, landed={0: 7}))
    assert (refusal.kind, refusal.words) == (
        RefusalKind.PARTITIONS, "batches are of partitions [0], site bergen has [0, 1]",
    )  # fmt: skip
    marks = replace(FACTS, marks={0: 99, -1: 30, 1: 99})
    assert kinds(marks) == [RefusalKind.PARTITIONS, RefusalKind.SHRUNK, RefusalKind.SHRUNK], "every mark is looked at"


def test_f6_a_site_that_returns_has_its_topic_and_its_ends_were_noted() -> None:
    assert kinds(replace(RETURNS, known_topic_id="other")) == [RefusalKind.SHRUNK]
    assert kinds(replace(RETURNS, known_topic_id="other", noted={})) == [RefusalKind.SHRUNK]
    assert kinds(replace(RETURNS, noted={})) == [RefusalKind.NOT_NOTED]
    assert kinds(replace(RETURNS, noted={0: 5})) == [], "a partition that was added since is walked from its beginning"
    assert [base_of(RETURNS, p) for p in (0, 1, 2)] == [5, 0, 0]


@pytest.mark.parametrize(
    ("mark", "stable", "kind"),
    [
        (5, 20, None),
        (20, 20, None),
        (4, 20, RefusalKind.SHRUNK),
        (21, 20, RefusalKind.SHRUNK),
        (18, 18, None),
        (19, 18, RefusalKind.TRANSACTION),
    ],
)
def test_a_mark_lies_between_the_noted_end_and_the_readable_end(mark: int, stable: int, kind) -> None:
    topic = replace(TOPIC, partitions={0: lane(20, stable), 1: lane(30)})
    found = refusals(replace(RETURNS, topic=topic, marks={0: mark, 1: 30}))
    assert [r.kind for r in found] == ([] if kind is None else [kind])
    if kind is RefusalKind.SHRUNK:
        assert found[0].words == f"partition 0: mark {mark} is not between 5 and the end 20"


def test_f6_copies_that_were_taken_over_have_landed() -> None:
    """They are read at no other site."""
    assert kinds(replace(FACTS, newest=NEWEST, landed={0: 20, 1: 9})) == []
    (refusal,) = refusals(replace(FACTS, newest=NEWEST, landed={0: 19, 1: 9}))
    assert refusal.kind == RefusalKind.UNREAD_COPIES
    assert "end at 19, copies that were taken over reach up to 20: 1 offset not read" in refusal.words
    none = replace(NEWEST, certificate=replace(CERTIFICATE, crossings=(replace(CROSSED, partition=7),)))
    assert "end at 0, " in objections(replace(FACTS, newest=none))[0].words


# ---------------------------------------------------------------- the decision


def test_a_refusal_leaves_no_switch() -> None:
    odd, other = Refusal(RefusalKind.HOLE, "odd"), Refusal(RefusalKind.MARK, "no")
    made = decide(FACTS, [CROSSED, replace(CROSSED, partition=1, refusals=(odd,))], [other])
    assert (made.switch, made.refusals) == (None, (other, odd))
    assert decide(FACTS, [CROSSED], [other]).switch is None


def test_the_switch_says_what_is_never_read_of_either_log() -> None:
    """Here what is copied for nothing, there what has crossed and not landed."""
    whole = Crossing(partition=1, landed=9, crossed=9, base=0, mark=30)
    made = decide(replace(FACTS, batch=PlannedBatch(PLAN)), [CROSSED, whole])
    switch = made.switch
    assert switch is not None
    assert switch.stretches == {"there": {0: (Interval(0, 3),)}, "here": {0: (Interval(7, 9),)}}
    assert (switch.pipeline, switch.version, switch.number) == ("p", 4, 1)
    assert (switch.site, switch.before, switch.withdrawn) == ("bergen", "oslo", PlannedBatch(PLAN))
    assert switch.certificate == Certificate(
        topic="t", before_topic_id="here", topic_id="there", stopped="said", crossings=(CROSSED, whole)
    )
    assert (made.facts.batch, made.crossings, made.refusals) == (PlannedBatch(PLAN), (CROSSED, whole), ())
    again = decide(replace(FACTS, newest=NEWEST), [CROSSED]).switch
    assert again is not None
    assert (again.number, again.withdrawn) == (4, None)


def test_a_run_compares_all_that_the_plan_showed() -> None:
    shown = decide(FACTS, [CROSSED])
    others = [
        decide(FACTS, [replace(CROSSED, mark=21)]),
        decide(replace(FACTS, site="third"), [CROSSED]),
        decide(replace(FACTS, batch=PlannedBatch(PLAN)), [CROSSED]),
        decide(replace(FACTS, batch=WritingBatch(PLAN, 1, "n")), [CROSSED]),
    ]
    assert len({d.digest for d in (shown, *others)}) == 5
    assert decide(replace(FACTS, version=99), [CROSSED]).digest == shown.digest
    assert len(shown.digest) == 12
