"""A third site takes over from one where copies of the first lie behind its mark: each record lands once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.failover.test_refusals import only
from tests.failover.test_there_and_back import landed
from tests.failover.test_three_sites import ThreeSites
from tests.world import TOPIC
from tidegate.cli.failover import _lines
from tidegate.core.failover.crossing import RefusalKind


def behind_the_mark(folder: Path) -> ThreeSites:
    """Bergen is active, and Oslo's copier to it was started again: c and d lie there among e and f; none of them has
    landed."""
    made = ThreeSites(folder)
    made.write("oslo", "a", "b")
    made.drain("r1")
    made.there.run()
    made.write("oslo", "c", "d")
    made.fail_over()
    made.write("bergen", "e")
    made.there.run()
    made.write("bergen", "f")
    return made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ThreeSites]:
    made = behind_the_mark(tmp_path)
    yield made
    made.close()


def goes_on(world: ThreeSites) -> None:
    """At Tromso, with all that Bergen had; then Oslo comes back."""
    certificate = world.fail_over("tromso").certificate
    world.write("tromso", "g")
    world.drain("r2")
    assert world.rows() == ["a", "b", "e", "f", "g"], "c and d are read where they were written"
    world.note("oslo")
    world.copier("tromso", "oslo", certificate).run()
    world.fail_over("oslo")
    world.write("oslo", "h")
    world.drain("r3")
    landed(world)


def test_its_copier_says_what_was_a_copy_before(world: ThreeSites) -> None:
    world.copier("bergen", "tromso").run()
    world.standbys["bergen"].away = True
    assert any("2 records of another site skipped: read there" in line for line in _lines(world.survey("tromso")))
    goes_on(world)


def test_the_log_of_the_site_that_is_left_says_it(world: ThreeSites) -> None:
    copier = world.copier("bergen", "tromso")
    copier.tells = False
    copier.run()
    assert [(c.to_read, c.strays) for c in world.survey("tromso").crossings] == [(2, 2), (0, 0)]
    goes_on(world)


def test_where_nothing_says_it_the_failover_is_refused(world: ThreeSites) -> None:
    copier = world.copier("bergen", "tromso")
    copier.tells = False
    copier.run()
    world.standbys["bergen"].away = True
    refusal = only(world.survey("tromso"))
    assert refusal.kind == RefusalKind.ORIGIN
    topic_id = world.at["bergen"].look("readings").topic_id
    assert f"the copy at 2 is of the record at 2 of topic id {topic_id}, behind the mark there" in refusal.words
    assert "batches have landed up to 2" in refusal.words
    assert "let the active site's brokers answer" in refusal.advice


def test_a_log_that_has_lost_them_says_nothing(world: ThreeSites) -> None:
    copier = world.copier("bergen", "tromso")
    copier.tells = False
    copier.run()
    world.at["bergen"].compact("readings", 0, 2)
    assert only(world.survey("tromso")).kind == RefusalKind.ORIGIN
    world.drain("r2")
    assert not world.survey("tromso").refusals


def test_of_two_sites_nothing_has_to_be_said(world: ThreeSites) -> None:
    """The copier back leaves out what is the first site's own."""
    world.note("oslo")
    back = world.copier("bergen", "oslo", world.context().ledger.failovers.newest("readings").certificate)
    back.tells = False
    back.run()
    world.standbys["bergen"].away = True
    world.fail_over("oslo")
    world.drain("r2")
    landed(world)


def test_an_exact_copier_that_keeps_what_copies_said_is_refused_by_name(world: ThreeSites) -> None:
    """Without the pair nothing is known of f; with it nothing but a kept header tells c and d from f."""
    for p in (0, 1):
        for one in world.at["bergen"].records(TOPIC, p):
            told = {"key": one.key, "timestamp_ms": one.timestamp_ms, "headers": list(one.headers or ())}
            world.at["tromso"].append(TOPIC, p, one.value, **told)
    refusal = only(world.survey("tromso", known=world.pairs((0, 0, 0))))
    topic_id = world.at["oslo"].look(TOPIC).topic_id
    assert f"has a header tidegate-source of topic id {topic_id}, which it had at site bergen already" in refusal.words
    assert "leave --pair out" not in refusal.advice
    assert RefusalKind.NO_COORDINATES in {one.kind for one in world.survey("tromso").refusals}
