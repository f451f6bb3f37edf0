"""Windows whose rows another system counts too: held, let through, published with a warning, in a whole Tidegate."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.truth import FakeTruth
from tests.hooks import Hook, Once
from tests.world import HOUR, T0, World, record, window
from tidegate.core.base.errors import LostComparison, NotReady, StepMissing
from tidegate.core.completeness import rules
from tidegate.core.spec.pipeline import Completeness
from tidegate.core.window.answer import Answer
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import ingest
from tidegate.workflow.completeness import ask
from tidegate.workflow.publish import archive

SETTINGS = Completeness(source="topic", conn_id="kafka", topic="audit", poll_ms=60_000, patience_ms=HOUR)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Hour 0 has two rows and its watermark has passed."""
    world = World(tmp_path)
    world.change_spec(completeness=SETTINGS)
    world.produce(record("a", 0.1), record("b", 0.2), record("c", 3.0))
    world.ingest("r1")
    return world


def ready(world: World, hour: int = 0) -> Certificate:
    certificate = archive.ready(world.context(), window(hour))
    world.close()
    return certificate


def published_certificate(world: World) -> dict:
    (path,) = (world.folder / "lake/readings").rglob("hour=00/_certificate.json")
    return json.loads(path.read_text())


def test_a_complete_hour_is_published_and_says_so(world: World) -> None:
    world.truth.counts[T0] = 2
    assert ready(world).ready
    assert world.archive(0).rows == 2
    assert "complete: 2 of 2 by audit" in json.dumps(published_certificate(world))


def test_an_hour_that_is_short_waits_and_is_complete_later(world: World) -> None:
    world.truth.counts[T0] = 3
    certificate = ready(world)
    assert not certificate.ready
    assert "short: 2 of 3 by audit (1 missing, 33.33 %); waits until 2013-01-09T05:00Z" in certificate.text()
    with pytest.raises(NotReady, match="short: 2 of 3"):
        world.archive(0)
    world.produce(record("late, but in time", 0.3))
    world.ingest("r2")
    world.clock.advance(SETTINGS.poll_ms)
    assert world.archive(0).rows == 3


def test_rows_that_landed_after_the_question_do_not_stand_in(world: World) -> None:
    """The other system may have grown in the meantime as well: it is asked again before the hour counts as complete."""
    world.truth.counts[T0] = 3
    ready(world)
    world.truth.counts[T0] = 4
    world.produce(record("one of two", 0.3))
    world.ingest("r2")
    assert "short: 2 of 3" in ready(world).reason
    world.clock.advance(SETTINGS.poll_ms)
    assert "short: 3 of 4" in ready(world).reason


def test_a_row_that_lands_while_the_other_system_is_asked_is_not_counted(world: World) -> None:
    """Our count comes first: else a row could be in ours and not yet in theirs, in place of one that is missing."""
    world.truth.counts[T0] = 3
    asked = world.truth.expected

    def lands_meanwhile(key: WindowKey) -> int | None:
        world.truth.expected = asked  # type: ignore[method-assign]
        expected = asked(key)
        world.produce(record("meanwhile", 0.3))
        world.ingest("r2")
        return expected

    world.truth.expected = lands_meanwhile  # type: ignore[method-assign]
    ctx = world.context()
    answer = ask.gather(ask.counts_of(ctx), window(0))  # type: ignore[arg-type]
    assert (answer.rows, answer.expected) == (2, 3)


def test_it_is_asked_no_more_often_than_it_wants(world: World) -> None:
    for _ in range(3):
        ready(world)
    assert len(world.truth.asked) == 1
    world.clock.advance(SETTINGS.poll_ms)
    ready(world)
    assert len(world.truth.asked) == 2


def test_what_is_complete_is_not_asked_again(world: World) -> None:
    world.truth.counts[T0] = 2
    ready(world)
    world.truth.counts[T0] = 5
    world.clock.advance(10 * HOUR)
    assert world.archive(0).rows == 2
    assert len(world.truth.asked) == 1


def test_what_was_complete_is_asked_again_when_more_rows_land(world: World) -> None:
    """The other system may know of still more by then."""
    world.truth.counts[T0] = 2
    assert ready(world).ready
    world.truth.counts[T0] = 4
    world.produce(record("one of two", 0.3))
    world.ingest("r2")
    world.clock.advance(SETTINGS.poll_ms)
    assert "short: 3 of 4" in ready(world).reason


def test_it_is_not_asked_while_the_watermark_blocks(world: World) -> None:
    assert not ready(world, hour=2).ready
    with pytest.raises(NotReady, match="partition"):
        world.archive(2)
    assert world.truth.asked == []


def test_a_window_before_the_first_is_published_empty(world: World) -> None:
    assert ready(world, hour=-1).ready
    assert world.truth.asked == []


@pytest.mark.parametrize("problem", ["HTTP 503", ""])
def test_an_hour_that_nobody_knows_of_waits_for_its_patience(world: World, problem: str) -> None:
    world.truth.problem = problem
    certificate = ready(world)
    assert not certificate.ready
    assert f"unknown: audit: {problem or 'it has no count for this window yet'}" in certificate.reason
    world.clock.advance(HOUR - 1)
    with pytest.raises(NotReady, match="unknown: audit"):
        world.archive(0)
    world.clock.advance(1)
    assert world.archive(0).rows == 2
    assert "published with a warning after 60 min" in json.dumps(published_certificate(world))


def test_patience_begins_with_the_first_question(world: World) -> None:
    """Not with the newest: else a window that is asked for again and again would never be published."""
    world.truth.counts[T0] = 3
    ready(world)
    for _ in range(59):
        world.clock.advance(60_000)
        assert not ready(world).ready
    world.clock.advance(60_000)
    assert ready(world).ready


def test_warn_publishes_at_once(world: World) -> None:
    world.change_spec(completeness=replace(SETTINGS, policy="warn", patience_ms=None))
    world.truth.counts[T0] = 3
    assert world.archive(0).rows == 2
    found = published_certificate(world)
    assert "short: 2 of 3 by audit (1 missing, 33.33 %); published with a warning" in json.dumps(found)


def test_a_problem_is_one_bounded_line(world: World) -> None:
    world.truth.problem = "x" * 9000 + "\nmore"
    assert len(ready(world).reason) < 700
    assert "more" not in ready(world).reason


def test_late_rows_count_where_the_spec_says_so(world: World) -> None:
    world.change_spec(windows=replace(world.pipeline.windows, max_age_ms=90 * HOUR))
    world.produce(record("too old", 0.5))
    world.ingest("r2")
    for late_too, rows in ((False, 2), (True, 3)):
        world.change_spec(completeness=replace(SETTINGS, late_too=late_too))
        ctx = world.context()
        answer = ask.gather(ask.counts_of(ctx), window(0), again=True)  # type: ignore[arg-type]
        assert answer.rows == rows


def test_without_a_way_to_ask_nothing_counts_as_complete(world: World) -> None:
    world.truth = None  # type: ignore[assignment]
    assert "unknown: audit: nothing here is connected to it" in ready(world).reason


def test_a_pipeline_that_names_no_other_system_asks_none(world: World) -> None:
    world.change_spec(completeness=None)
    world.truth.counts[T0] = 3
    assert world.archive(0).rows == 2
    assert world.truth.asked == []


# ---------------------------------------------------------------- races and refusals


def test_of_two_that_ask_at_once_one_answer_stands(world: World) -> None:
    """And both go on with it."""
    ctx, rival = world.context(), world.context()
    ctx.truth = _Meanwhile(lambda: ask.gather(ask.counts_of(rival), window(0)), 7)  # type: ignore[arg-type]
    world.truth.counts[T0] = 3
    found = ask.gather(ask.counts_of(ctx), window(0))  # type: ignore[arg-type]
    assert found.expected == 3
    assert ctx.ledger.truths.known("readings", window(0), ("data",))[1] == found


def test_an_acceptance_meanwhile_stands(world: World) -> None:
    world.truth.counts[T0] = 3
    ready(world)
    world.clock.advance(SETTINGS.poll_ms)
    ctx, rival = world.context(), world.context()
    ctx.truth = _Meanwhile(lambda: _accept(rival), 9)
    found = ask.gather(ask.counts_of(ctx), window(0))  # type: ignore[arg-type]
    assert (found.expected, found.accepted) == (3, "lost at the source")
    assert archive.publish(ctx, window(0)).rows == 2


def test_the_closing_transaction_decides_by_what_is_stored(world: World) -> None:
    """Between the question and the transaction somebody else stored that the hour is short: it is not closed."""
    world.truth.counts[T0] = 2
    ctx = world.context()
    ledger = ctx.ledger.windows

    def overwritten() -> None:
        rival = world.context()
        _, old = rival.ledger.truths.known("readings", window(0), ("data",))
        assert old is not None
        rival.ledger.truths.save("readings", window(0), replace(old, expected=9, asked_ms=old.asked_ms + 1), old)

    ctx.ledger.windows = Hook(ledger, before={"begin_close": Once(overwritten)})  # type: ignore[misc]
    with pytest.raises(NotReady, match="short: 2 of 9"):
        archive.publish(ctx, window(0))


def test_accepting(world: World) -> None:
    world.truth.counts[T0] = 3
    assert not ready(world).ready
    _accept(world.context())
    world.truth.counts[T0] = 99
    world.clock.advance(10 * SETTINGS.poll_ms)
    assert world.archive(0).rows == 2
    assert len(world.truth.asked) == 1
    assert "accepted: lost at the source" in json.dumps(published_certificate(world))


@pytest.mark.parametrize("case", ["none asked", "closed", "complete", "asked again"])
def test_what_cannot_be_accepted(world: World, case: str) -> None:
    world.truth.counts[T0] = 2 if case in ("closed", "complete") else 3
    certificate = ready(world)
    assert certificate.completeness is not None
    if case == "closed":
        world.archive(0)
    if case == "none asked":
        world.change_spec(completeness=None)
    if case == "asked again":
        shown = _standing(world.context())
        world.clock.advance(SETTINGS.poll_ms)
        world.truth.counts[T0] = 1000
        ready(world)
        with pytest.raises(LostComparison):
            ask.accept(world.context(), window(0), shown, "why")
        return
    words = {"none asked": "asks no other system", "closed": "is closed already", "complete": "is complete"}
    with pytest.raises(StepMissing, match=words[case]):
        _accept(world.context())


def held(world: World) -> tuple[rules.Held, ...]:
    ctx = world.context()
    answers = ctx.ledger.reads.answers([ctx.name])  # type: ignore[attr-defined]
    return rules.held(ctx.pipeline.completeness, answers.get(ctx.name, {}), ctx.clock.now_ms())


def test_which_windows_are_held(world: World) -> None:
    """Only open ones, and only those that are not let through."""
    world.truth.counts |= {T0: 2, T0 + HOUR: 1}
    assert ready(world, 0).ready
    assert not ready(world, 1).ready
    assert [(h.window_ms, h.comparison.verdict) for h in held(world)] == [(T0 + HOUR, "short")]
    world.archive(0)
    world.clock.advance(HOUR)
    assert held(world) == ()


def test_a_look_asks_nobody(world: World) -> None:
    ctx = world.context()
    certificate = archive._certify(ctx, window(0), ctx.ledger.windows.facts("readings"))
    found = ask.as_known(ask.counts_of(ctx), certificate)
    assert "audit has not been asked" in found.reason
    assert world.truth.asked == []


def test_a_batch_in_flight_completes_the_hour_when_it_lands(world: World) -> None:
    world.truth.counts[T0] = 3
    world.produce(record("in flight", 0.4))
    ingest.plan(world.context(), "r2")
    assert "short: 2 of 3" in ready(world).reason
    world.ingest("r2")
    world.clock.advance(SETTINGS.poll_ms)
    assert ready(world).ready


class _Meanwhile(FakeTruth):
    """Something happens while the other system is asked."""

    def __init__(self, what: object, count: int) -> None:
        super().__init__()
        self._what, self._count = what, count

    def expected(self, window: WindowKey) -> int | None:
        self._what()  # type: ignore[operator]
        return self._count


def _standing(ctx: Context) -> Answer:
    _, answer = ctx.ledger.truths.known("readings", window(0), ("data",))
    assert answer is not None
    return answer


def _accept(ctx: Context) -> None:
    ask.accept(ctx, window(0), _standing(ctx), "lost at the source")
