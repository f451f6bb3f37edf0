"""Copies that say nowhere what they are of are counted from a known pair on, and proven by what has landed (F2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit.audits import look
from tests.failover.sites import Copier, TwoSites
from tests.world import TOPIC
from tidegate.core.base.errors import FailoverRefused
from tidegate.core.base.plain import dumps, loads, to_plain
from tidegate.core.failover import counting
from tidegate.core.failover.crossing import Crossing, Pair, RefusalKind
from tidegate.core.failover.states import Failover


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoSites]:
    made = without_headers(TwoSites(tmp_path), monkeypatch)
    yield made
    made.close()


def without_headers(world: TwoSites, monkeypatch: pytest.MonkeyPatch) -> TwoSites:
    monkeypatch.setattr(counting, "FEWEST", 3)
    world.stamped = world.there.plain = True
    return world


def two_ahead(world: TwoSites) -> None:
    """Five have landed; with the control record behind the second one Oslo's log ends at 9, two never crossed."""
    world.write("oslo", "a", "b")
    world.at["oslo"].skip(TOPIC, 0)
    world.write("oslo", "c", "d", "e")
    world.drain("r1")
    world.write("oslo", "f", "g")
    world.there.run()
    world.write("oslo", "h", "i")


def there(world: TwoSites, before: int = 0, here: int = 0) -> Failover:
    return world.fail_over(known=world.pairs((0, before, here)))


def landed(world: TwoSites, *never_crossed: str) -> None:
    assert world.rows() == sorted(set(world.produced) - set(never_crossed))
    audit = look(world)
    assert not audit.problems, audit.problems


def test_reading_goes_on_where_the_first_site_ended(world: TwoSites) -> None:
    two_ahead(world)
    assert {r.kind for r in world.survey().refusals} == {RefusalKind.NO_COORDINATES}
    done = there(world)
    crossing = done.certificate.of(0)
    assert (crossing.landed, crossing.to_read, crossing.left, crossing.pair) == (6, 2, 8, Pair(0, 0))
    world.write("bergen", "j")
    world.drain("r2")
    landed(world, "h", "i")


def test_any_true_pair_below_what_has_landed_says_the_same(world: TwoSites) -> None:
    two_ahead(world)
    for pair in ((0, 0), (1, 1), (2, 2), (3, 2)):  # 2 is a control record's
        crossing = world.survey(known=world.pairs((0, *pair))).crossings[0]
        assert (crossing.to_read, crossing.refusals) == (2, ()), pair
        assert crossing.first_to_read == 5


def test_less_has_crossed_than_has_landed(world: TwoSites) -> None:
    world.write("oslo", "a", "b", "c", "d", "e")
    world.there.run(4)
    world.drain("r1")
    crossing = there(world).certificate.of(0)
    assert (crossing.crossed, crossing.unknown_here, crossing.to_read) == (4, 1, 0)
    world.write("bergen", "f")
    world.drain("r2")
    landed(world)


def test_there_and_back(world: TwoSites) -> None:
    """What crossed is measured once both logs can be read: a control record above what had landed is no record."""
    two_ahead(world)
    world.there.run(0)
    world.at["oslo"].skip(TOPIC, 0)
    world.write("oslo", "crosses too")
    world.there.run()
    world.write("oslo", "never crossed")
    done = there(world)
    assert done.certificate.of(0).left == 11, "by counting; it is 12"
    back, home = come_back(world, done)
    back.run()
    world.fail_over("oslo", known=world.pairs((0, *home)))
    world.write("oslo", "at last")
    world.drain("r3")
    landed(world)


def come_back(world: TwoSites, done: Failover) -> tuple[Copier, tuple[int, int]]:
    """The copier back, and the pair that it has to have."""
    world.write("bergen", "w", "x", "y", "z")
    world.drain("r2")
    noted = {one.partition: one for one in world.note()}
    starts = {c.partition: c.mark for c in done.certificate.crossings}
    return Copier(world.at["bergen"], world.at["oslo"], plain=True, starts=starts), (starts[0], noted[0].end)


def test_a_second_failover_counts_from_the_mark_of_the_way_back(world: TwoSites) -> None:
    two_ahead(world)
    back, home = come_back(world, there(world))
    back.run()
    done = world.fail_over("oslo", known=world.pairs((0, *home)))
    world.write("oslo", "1", "2", "3", "4")
    world.drain("r3")
    world.write("oslo", "5")
    (noted, *_) = world.note("bergen")
    mark = done.certificate.of(0).mark
    Copier(world.at["oslo"], world.at["bergen"], plain=True, starts={0: mark}).run(partition=0)
    world.fail_over("bergen", known=world.pairs((0, mark, noted.end)))
    world.drain("r4")
    landed(world)


# ---------------------------------------------------------------- what is refused


def repeats(world: TwoSites) -> None:
    world.there.at[0] = 4
    world.there.run(1, partition=0)


CASES = [
    ((0, 1), RefusalKind.DIFFERENCE, "the record at 0 landed with timestamp 0, its copy at 1 has 1; 5 of 5 rows"),
    ((3, 3), RefusalKind.DIFFERENCE, "from pair 3:3 on, the record at 3 landed with timestamp 2, its copy at 3 has 3"),
    ((4, 3), RefusalKind.NO_PROOF, "2 rows that landed could be compared from pair 4:3 on, 3 are needed"),
    ((6, 5), RefusalKind.NO_PROOF, "0 rows that landed"),
    ((7, 6), RefusalKind.BEGINS_ABOVE, "landed up to 6, the pair begins at 7"),
    ((0, 99), RefusalKind.NO_PROOF, "the pair's copy at 99 is not between 0 and the mark 9"),
]


@pytest.mark.parametrize(("pair", "kind", "words"), CASES)
def test_a_pair_that_is_not_true_or_proves_too_little(
    world: TwoSites, pair: tuple[int, int], kind: RefusalKind, words: str
) -> None:
    two_ahead(world)
    world.there.run()
    refused(world, kind, words, pair)


def refused(
    world: TwoSites, kind: RefusalKind, words: str, pair: tuple[int, int] = (0, 0), site: str = "bergen"
) -> None:
    decision = world.survey(site, known=world.pairs((0, *pair)))
    assert {r.kind for r in decision.refusals} == {kind}, decision.refusals
    assert re.search(re.escape(words), decision.refusals[0].words), decision.refusals
    assert decision.refusals[0].advice
    assert decision.switch is None


def left_out(world: TwoSites) -> None:
    world.there.run(2)
    world.there.at[0] += 2
    world.there.run()


def again(world: TwoSites) -> None:
    world.there.run(3)
    world.there.at[0] -= 1
    world.there.run()


@pytest.mark.parametrize(
    ("copies", "words"),
    [
        (left_out, "the record at 3 landed with timestamp 2, its copy at 2 has 3; 2 of 4 rows differ"),
        (again, "the record at 4 landed with timestamp 3, its copy at 3 has 2; 2 of 5 rows differ"),
    ],
)
def test_a_copier_that_is_not_exact(world: TwoSites, copies: Callable, words: str) -> None:
    world.write("oslo", "a", "b")
    world.at["oslo"].skip(TOPIC, 0)
    world.write("oslo", "c", "d", "e")
    world.drain("r1")
    copies(world)
    refused(world, RefusalKind.DIFFERENCE, words)


def test_equal_timestamps_prove_nothing(world: TwoSites) -> None:
    world.stamped = False
    two_ahead(world)
    words = "5 rows agree, and would agree if each copy were 1 record later: timestamps from 0 to 0 repeat"
    refused(world, RefusalKind.NO_PROOF, words)


def test_records_that_were_filtered_are_counted_and_not_compared(world: TwoSites) -> None:
    world.change_spec(where="id <> 'b'")
    world.write("oslo", "a", "b", "c")
    world.at["oslo"].append(TOPIC, 0, b"dirty", timestamp_ms=7)
    world.write("oslo", "late", hour=-40.0)
    world.drain("r1")
    world.write("oslo", "d")
    world.there.run()
    (crossing, _) = world.survey(known=world.pairs((0, 0, 0))).crossings
    assert (crossing.to_read, crossing.refusals) == (1, ())
    refused(world, RefusalKind.DIFFERENCE, "4 of 4 rows differ", (0, 1))


def test_a_copy_that_says_what_it_is_of_is_not_counted(world: TwoSites) -> None:
    two_ahead(world)
    world.there.plain = False
    world.there.run()
    refused(world, RefusalKind.NO_PROOF, "the record at 7 has a header tidegate-source")


def test_a_pair_of_a_partition_that_nobody_has_read(world: TwoSites) -> None:
    two_ahead(world)
    with pytest.raises(FailoverRefused, match="a pair is given of partition 7"):
        world.survey(known=world.pairs((7, 0, 0)))


def test_another_pair_on_the_way_back(world: TwoSites) -> None:
    """Two were copied back before the end was noted: as Oslo's own records they would come twice."""
    two_ahead(world)
    done = there(world)
    world.write("bergen", "v", "w")
    early = Copier(world.at["bergen"], world.at["oslo"], plain=True, starts={0: done.certificate.of(0).mark})
    early.run(partition=0)
    _, (mark, noted) = come_back(world, done)
    early.run(partition=0)
    refused(
        world, RefusalKind.DIFFERENCE, f"landed with timestamp 9, its copy at {noted} has 11", (mark, noted), "oslo"
    )
    words = f"the pair is {mark + 2}:{noted}; copying back had to begin at {mark}, and the site's own records end at"
    refused(world, RefusalKind.DIFFERENCE, words, (mark + 2, noted), "oslo")


def test_what_crossed_is_compared_with_what_the_first_site_has(world: TwoSites) -> None:
    """The copier has left a record out above what had landed: nothing told then, and Oslo's log tells now."""
    two_ahead(world)
    world.there.at[0] += 1
    world.there.run()
    done = there(world)
    assert done.certificate.of(0).to_read == 3
    world.drain("r2")
    words = r"the record at 7 was read as the copy of the next one from 8 on .*; the one at 8 is another"
    with pytest.raises(FailoverRefused, match=f"a difference in the overlap: partition 0: {words}"):
        world.note()


@pytest.mark.parametrize("site", ["oslo", "bergen"])
def test_what_crossed_is_there_no_longer_to_compare(world: TwoSites, site: str) -> None:
    two_ahead(world)
    there(world)
    world.drain("r2")
    world.at[site].trim(TOPIC, 0, 7)
    with pytest.raises(FailoverRefused, match=f"to compare both logs site {site} is needed from . on, it begins at 7"):
        world.note()


def test_what_crossed_is_compared_once_more_when_the_site_is_switched_to(world: TwoSites) -> None:
    two_ahead(world)
    back, home = come_back(world, there(world))
    back.run()
    world.at["oslo"].compact(TOPIC, 0, 6)
    refused(world, RefusalKind.DIFFERENCE, "was read as the copy of the next one from 6 on", home, "oslo")


def test_a_certificate_without_a_pair_is_as_it_always_was() -> None:
    crossing = Crossing(partition=0, landed=5, crossed=7, base=0, mark=8)
    assert "pair" not in to_plain(crossing)
    told = dumps(replace(crossing, pair=Pair(4, 3)))
    assert loads(Crossing, told).pair == Pair(4, 3)
    assert loads(Crossing, dumps(crossing)).pair is None


def test_on_the_way_back_no_other_pair_is_advised(world: TwoSites) -> None:
    """The pair is not to be chosen there, so more records are all that helps."""
    two_ahead(world)
    done = there(world)
    mark, world.stamped = done.certificate.of(0).mark, False
    world.write("bergen", "w")
    world.drain("r2")
    (noted, *_) = world.note()
    back = Copier(world.at["bergen"], world.at["oslo"], plain=True, starts={0: mark})
    back.run(partition=0)
    home = (0, mark, noted.end)
    (few,) = world.survey("oslo", known=world.pairs(home)).refusals
    assert few.words.endswith(f"1 row that landed could be compared from pair {mark}:{noted.end} on, 3 are needed")
    assert few.advice == "the pair is right: let more records land at site bergen, and be copied back; then again"
    world.write("bergen", "x", "y", "z")
    world.drain("r3")
    back.run(partition=0)
    (equal,) = world.survey("oslo", known=world.pairs(home)).refusals
    assert ("would agree if" in equal.words, equal.advice) == (True, few.advice)
