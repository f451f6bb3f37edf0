"""Replays that nobody goes on with: maintenance gives them up, so that late rows can join their windows again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pytest

from tests.hooks import Died, Hook, die
from tests.late.reopenings import BOTH, WORK, balanced, begun, once
from tests.world import HOUR, World, window
from tidegate.core.base.errors import LedgerError, NotReady, SourceUnavailable
from tidegate.core.replay.abandoned import GIVEN_UP_MS, AtWork
from tidegate.core.replay.rollback import ROLLBACK
from tidegate.core.spec.pipeline import Column, Reopening
from tidegate.core.window.states import BUILDING, WindowKey
from tidegate.workflow.late import reopen
from tidegate.workflow.look import status as looking
from tidegate.workflow.maintain import abandoned, reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay, rollback


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = begun(World(tmp_path))
    made.change_spec(columns=(*made.pipeline.columns[:2], Column(name="value", type="int", path="$.other")))
    yield made
    made.close()


def nobody(windows: Sequence[WindowKey]) -> set[int]:
    """No run of Airflow's may still be at a window."""
    return set()


def maintained(world: World, at_work: AtWork | None = nobody) -> list[str]:
    done = reconcile.maintain(world.context(), None, at_work)
    world.close()
    return [line for line in done if "given up" in line or "reopened" in line]


def died_replaying(world: World, port: str = "launcher", method: str = "run") -> None:
    world.wrap = lambda name, p: Hook(p, before={method: die}) if name == port else p
    with pytest.raises(Died):
        replay.replay(world.context(), window(0))
    world.wrap = lambda name, p: p
    world.close()


def state(world: World, number: int = 2) -> str:
    found = world.context().ledger.windows.generation("readings", window(0), number).state
    world.close()
    return found


def told(world: World) -> list[str]:
    ctx = world.context()
    found = looking.status(ctx, ctx.ledger.reads, None)  # type: ignore[attr-defined]
    world.close()
    return [c.what for c in found.concerns if c.kind == "replay_left"]


def test_a_replay_that_died_a_day_ago_is_given_up_and_late_rows_join_their_window(world: World) -> None:
    world.change_spec(reopening=Reopening(after_ms=0))
    died_replaying(world)
    world.clock.advance(GIVEN_UP_MS - 1)
    assert (maintained(world), state(world)) == ([], BUILDING)
    assert told(world)
    world.clock.advance(1)
    gone, taken = maintained(world)
    assert gone == (
        "2013-01-05T00:00Z: generation 2 (replay) is given up: no task has begun to build it again since "
        "2013-01-09T04:00Z; generation 1 stays in force; to replay it: tidegate replay readings 2013-01-05T00:00Z"
    )
    assert "2013-01-05T00:00Z was reopened as generation 3" in taken
    assert told(world) == []
    once(world, BOTH)
    assert maintained(world) == []


def test_the_event_log_says_why(world: World) -> None:
    died_replaying(world)
    world.clock.advance(GIVEN_UP_MS)
    maintained(world)
    history = world.context().ledger.cleaning.history("readings", "window 20130105T000000Z", ("discarded",))
    (moment,) = history
    assert moment.detail["generation"] == 2
    assert "no task has begun to build it again since 2013-01-09T04:00Z" in moment.detail["why"]


def test_one_that_was_begun_and_never_taken(world: World) -> None:
    """Its age is that of its beginning; so is that of what an earlier release began."""
    world.context().ledger.windows.begin_generation("readings", window(0), 1, "replay")
    world.clock.advance(GIVEN_UP_MS - 1)
    assert maintained(world) == []
    world.clock.advance(1)
    assert len(maintained(world)) == 1


def test_the_newest_try_counts(world: World) -> None:
    died_replaying(world)
    world.clock.advance(GIVEN_UP_MS - 1)
    died_replaying(world)
    world.clock.advance(1)
    assert maintained(world) == []
    assert state(world) == BUILDING


def test_a_window_that_a_run_may_still_be_at_is_left(world: World) -> None:
    died_replaying(world)
    world.clock.advance(GIVEN_UP_MS)
    asked: list[Sequence[WindowKey]] = []

    def at_work(windows: Sequence[WindowKey]) -> Collection[int]:
        asked.append(windows)
        return {window(0).start_ms}

    assert maintained(world, at_work) == []
    assert asked == [[window(0)]]
    assert state(world) == BUILDING
    assert maintained(world, None) == [], "where nobody can say what runs there are"
    assert state(world) == BUILDING
    assert len(maintained(world)) == 1


def test_runs_are_not_asked_for_without_need(world: World) -> None:
    def at_work(windows: Sequence[WindowKey]) -> Collection[int]:
        raise AssertionError("nothing is left")

    died_replaying(world)
    assert maintained(world, at_work) == []


@pytest.mark.parametrize(("port", "method"), [("windows", "begin_swap"), ("catalogue", "set_location")])
def test_what_is_built_is_left(world: World, port: str, method: str) -> None:
    """Its directory may be where readers look."""
    died_replaying(world, port, method)
    before = state(world)
    assert before in ("BUILT", "SWAPPING")
    world.clock.advance(GIVEN_UP_MS)
    assert maintained(world) == []
    assert state(world) == before
    world.replay(0)
    balanced(world)


def test_a_rollback_is_left(world: World) -> None:
    """Once late rows are taken up, nobody could begin it again."""
    world.replay(0)
    ctx = world.context()
    ctx.launcher = Hook(ctx.launcher, before={"run": die})  # type: ignore[assignment]
    with pytest.raises(Died):
        rollback.rollback(ctx, window(0), 1, "x")
    world.close()
    world.clock.advance(GIVEN_UP_MS)
    assert maintained(world) == []
    left = world.context().ledger.windows.generation("readings", window(0), 3)
    assert (left.kind, left.state) == (ROLLBACK, BUILDING)


def test_a_heal_is_left(world: World) -> None:
    """The generation in force has lost a file: nothing may be begun beside it."""
    (lost,) = (world.folder / "lake/readings").glob("date=2013-01-05/hour=00/site=a/*.parquet")
    lost.unlink()
    world.wrap = lambda name, p: Hook(p, before={"run": die}) if name == "launcher" else p
    with pytest.raises(Died):
        archive.publish(world.context(), window(0))
    world.wrap = lambda name, p: p
    world.close()
    world.clock.advance(GIVEN_UP_MS)
    assert maintained(world) == []
    assert state(world) == BUILDING
    world.archive(0)
    balanced(world)


def test_a_window_with_an_alarm_is_left(world: World) -> None:
    died_replaying(world)
    world.context().ledger.windows.block("readings", window(0), "look at it")
    world.clock.advance(GIVEN_UP_MS)
    assert maintained(world) == []
    assert state(world) == BUILDING


def test_somebody_who_takes_it_in_that_moment_keeps_it(world: World) -> None:
    died_replaying(world)
    world.clock.advance(GIVEN_UP_MS)

    def at_work(windows: Sequence[WindowKey]) -> Collection[int]:
        ctx = world.context()
        ctx.ledger.windows.take("readings", window(0), 2, "mine")
        return set()

    assert maintained(world, at_work) == []
    assert state(world) == BUILDING


@pytest.mark.parametrize(("port", "when", "call"), [("windows", "before", "discard"), ("cleaning", "after", "history")])
def test_it_is_taken_right_before_it_is_given_up(world: World, port: str, when: str, call: str) -> None:
    """The comparison is of the epoch that was read before the age."""
    died_replaying(world)
    world.clock.advance(GIVEN_UP_MS)
    taken: list[object] = []
    ctx, plain = world.context(), world.context()

    def take(*_: object) -> None:
        if not taken:
            taken.append(plain.ledger.windows.take("readings", window(0), 2, "mine"))

    setattr(ctx.ledger, port, Hook(getattr(ctx.ledger, port), **{when: {call: take}}))
    done = reconcile.maintain(ctx, None, nobody)
    assert len(taken) == 1
    assert [line for line in done if "given up" in line] == []
    assert state(world) == BUILDING


def test_what_storage_knows_to_be_built_is_left(world: World) -> None:
    """The ledger was restored: it has forgotten BUILT and what came after it."""
    died_replaying(world)
    world.close()
    before = world.database.read_bytes()
    world.replay(0)
    world.database.write_bytes(before)
    world.clock.advance(GIVEN_UP_MS)
    assert maintained(world) == []
    assert state(world) == BUILDING
    published = world.replay(0)
    assert published.generation == 2
    balanced(world)


def test_an_outage_holds_up_no_other_duty(world: World) -> None:
    died_replaying(world)
    world.clock.advance(GIVEN_UP_MS)

    def silent(*_: object) -> None:
        raise LedgerError("no reply")

    ctx = world.context()
    ctx.ledger.windows = Hook(ctx.ledger.windows, before={"discard": silent})  # type: ignore[attr-defined]
    (line,) = [line for line in reconcile.maintain(ctx, None, nobody) if "given up" in line]
    assert line.startswith("2013-01-05T00:00Z: generation 2 could not be given up: ")
    world.close()
    assert len(maintained(world)) == 1


def test_what_it_left_is_cleaned(world: World) -> None:
    died_replaying(world, "storage", "rename_no_replace")
    work = world.folder / WORK
    assert list((work / "tmp").glob("20130105T000000Z.2.*"))
    world.clock.advance(GIVEN_UP_MS)
    maintained(world)
    world.clock.advance(25 * HOUR)
    reconcile.maintain(world.context())
    assert not list((work / "tmp").glob("20130105T000000Z.2.*"))
    assert not list((work / "publish").glob("20130105T000000Z.2.*"))
    balanced(world)


def test_a_range_of_them_in_few_rounds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abandoned, "MOST", 1)
    world.archive(1)

    def gone(*_: object) -> None:
        raise SourceUnavailable("no broker answers")

    ctx = world.context()
    ctx.launcher = Hook(ctx.launcher, before={"run": gone})  # type: ignore[assignment]
    replay.replay_range(ctx, [window(0), window(1)])
    world.close()
    world.clock.advance(GIVEN_UP_MS)
    assert [len(maintained(world)) for _ in range(3)] == [1, 1, 0]


def test_reopening_names_the_command_until_then(world: World) -> None:
    died_replaying(world)
    with pytest.raises(NotReady) as e:
        reopen.reopen(world.context(), window(0))
    assert "generation 2 (replay) is BUILDING" in str(e.value)
    assert "go on with it: tidegate replay readings 2013-01-05T00:00Z;" in e.value.advice


@pytest.mark.parametrize("ask", [rollback.rollback, rollback.preview], ids=["work", "look"])
def test_so_does_rolling_back(world: World, ask: Callable[..., object]) -> None:
    died_replaying(world)
    with pytest.raises(NotReady) as e:
        ask(world.context(), window(0))
    assert "generation 2 (replay) is BUILDING" in str(e.value)
    assert "go on with it: tidegate replay readings 2013-01-05T00:00Z;" in e.value.advice
