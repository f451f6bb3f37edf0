"""A pipeline that is paused on purpose: everybody says so, nobody waits for it, and losses stay loud."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.source.test_time_to_loss import DAY, write
from tests.window.test_unready import MINUTE, go_on, live, one_dead
from tests.world import HOUR, TOPIC, World
from tidegate.core.doctor.findings import OK, WARNING
from tidegate.core.doctor.rules import DagFacts, dags
from tidegate.core.look.measures import measures
from tidegate.core.tell.pauses import ALL, Pause
from tidegate.workflow.look import pauses
from tidegate.workflow.look import status as looking
from tidegate.workflow.tell.notices import tell


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Hour 98 waits for a dead partition, and 97 is published."""
    made = World(tmp_path)
    made.kafka.create(TOPIC, 2, retention_ms=7 * DAY)
    live(made)
    one_dead(made)
    yield made
    made.close()


def seen(world: World) -> tuple[list[str], list[str], bool]:
    """Kinds of concerns as `status` and the board's list have them, and whether the list counts it before it looks."""
    ctx, now_ms = world.context(), world.clock.now_ms()
    reads: Any = ctx.ledger.reads  # type: ignore[attr-defined]
    topic = world.kafka.look(TOPIC)
    one = looking.status(ctx, reads, topic)
    heads = reads.heads()
    many = looking.glances([world.pipeline], {"readings": (topic, now_ms)}, reads, now_ms)["readings"]
    assert (one.pause is not None) == any(m.name == "tidegate_paused" for m in measures(many))
    waits = heads["readings"].waits_at(now_ms)
    world.close()
    return [c.kind for c in one.concerns], [c.kind for c in many.concerns], waits


def pause(world: World, *kinds: str, until_ms: int | None = None) -> Pause:
    ledger: Any = world.context().ledger
    return ledger.pauses.pause("readings", kinds, "the hall has no power", until_ms, ledger.pauses.standing("readings"))


def test_what_waits_for_paused_dags_waits_for_nobody(world: World) -> None:
    got: list[dict[str, str]] = []

    class Channel:
        who = "http://receiver"
        send = staticmethod(got.append)

    def messages() -> list[tuple[str, str]]:
        ctx = world.context()
        tell(ctx, ctx.ledger.reads, [Channel()])  # type: ignore[attr-defined, list-item]
        world.close()
        said = [(m["kind"], m["status"]) for m in got]
        got.clear()
        return said

    go_on(world, 60, 0)
    assert messages() == [("unready_window", "raised")]
    assert seen(world) == (["unready_window"], ["unready_window"], True)
    pause(world, "archive")
    assert seen(world) == (["unready_window"], ["unready_window"], True), "archive has nothing to do with it"
    until_ms = world.clock.now_ms() + 3 * HOUR
    pause(world, "ingest", until_ms=until_ms)
    assert seen(world) == ([], [], False)
    assert messages() == [], "it is not over: nothing was published"
    go_on(world, 5, 1)  # an hour is ready, and nobody publishes it
    world.clock.advance(2 * HOUR)
    assert seen(world) == ([], [], False)
    ledger: Any = world.context().ledger
    only_ingest = ledger.pauses.unpause("readings", ["archive"], ledger.pauses.standing("readings"))
    assert seen(world)[:2] == (["late_window"], ["late_window"])
    pause(world, *ALL, until_ms=until_ms)
    assert only_ingest.kinds == ("ingest",)
    assert seen(world) == ([], [], False)
    world.clock.advance(2 * HOUR)
    kinds, listed, waits = seen(world)
    assert {"late_window", "unready_window", ""} <= set(kinds)
    assert {"late_window", ""} <= set(listed)
    assert waits
    ctx = world.context()
    over = next(c for c in looking.status(ctx, ctx.ledger.reads, None).concerns if not c.kind)  # type: ignore[attr-defined]
    assert ", which is over since " in over.what
    assert "the hall has no power" in over.what
    assert over.advice.startswith("tidegate unpause readings")


def test_unread_records_that_come_near_their_end_stay_loud(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.kafka.create(TOPIC, 1, retention_ms=7 * DAY)
    world.change_spec(source=replace(world.pipeline.source, loss_warning_ms=DAY))
    write(world, 3)
    world.ingest("r1")
    pause(world, *ALL)
    write(world, 3)
    world.clock.advance(6 * DAY - HOUR)
    assert seen(world) == ([], [], False)
    world.clock.advance(HOUR + MINUTE)
    assert seen(world)[:2] == (["loss_ahead"], ["loss_ahead"])
    ctx = world.context()
    status = looking.status(ctx, ctx.ledger.reads, world.kafka.look(TOPIC))  # type: ignore[attr-defined]
    (near,) = status.concerns
    assert near.what.startswith("ingest is paused, and unread records are lost in about")
    assert near.advice.startswith("tidegate unpause readings --only ingest")
    assert not status.well
    world.close()


def test_what_somebody_unpauses_in_airflow_is_not_paused_on_purpose(world: World) -> None:
    def settled(**found: bool) -> list[str]:
        return pauses.settle(world.context(), lambda: {f"readings.{kind}": is_ for kind, is_ in found.items()})

    assert settled(ingest=False) == []
    pause(world, "ingest", "archive", "maintain")
    assert settled(ingest=True, archive=True) == [], "what Airflow does not know is not moving"
    assert settled(ingest=False, archive=False, maintain=True) == [
        "no longer paused on purpose, since somebody has unpaused it in Airflow: ingest, archive"
    ]
    ledger: Any = world.context().ledger
    standing = ledger.pauses.standing("readings")
    assert standing.kinds == ("maintain",)
    pause(world, "ingest")  # another operator, after the ledger was read
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.ledger.pauses.SqlPauses.standing", lambda self, name: standing)
        assert settled(maintain=False) == []


def test_the_doctor_knows_which_pauses_are_meant() -> None:
    meant = Pause(1, 0, "anna", "why", ("ingest", "maintain"))
    moves, stands = DagFacts(paused=False, active=True), DagFacts(paused=True, active=True)
    found = {f"p.{kind}": stands if kind in meant.kinds else moves for kind in ALL}
    (one,) = dags("p", ALL, found, meant)
    assert (one.level, one.what) == (OK, "paused on purpose since 1970-01-01T00:00Z by anna (ingest, maintain): why")
    (other,) = dags("p", ALL, found | {"p.archive": stands}, meant)
    assert (other.level, other.what) == (WARNING, "paused: p.archive")
    (gone,) = dags("p", ALL, found | {"p.ingest": moves}, meant)
    assert gone.level == WARNING
    assert gone.what == "the ledger says that p.ingest is paused on purpose"
    assert gone.mend == "tidegate unpause p --only ingest"
