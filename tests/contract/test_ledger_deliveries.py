"""Deliveries in the ledger: tries by compare-and-set, what is due, how far each delivery is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.contract.ledgers import NAME, WINDOW, built, ledger, now, open_ledger, url
from tidegate.core.base.errors import LostComparison
from tidegate.core.deliver.places import Place
from tidegate.core.deliver.port import Content
from tidegate.core.deliver.states import Delivered, DeliveryState, Due
from tidegate.core.spec.pipeline import Delivery
from tidegate.ledger import SqlLedger, moves

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures

SHOP, PLACE, CONTENT = "shop", "postgresql pg readings", Content(rows=4, checksum=2**64 - 1)


def published(ledger: SqlLedger) -> Due:
    ledger.windows.publish(ledger.windows.begin_swap(built(ledger)), "file:///1", "c")
    return due(ledger)


def due(ledger: SqlLedger) -> Due:
    (one,) = ledger.deliveries.due(NAME, SHOP, None, 9)
    return one


def again_published(ledger: SqlLedger) -> None:
    """A second generation."""
    number = ledger.windows.begin_generation(NAME, WINDOW, 1, "replay")
    taken = ledger.windows.take(NAME, WINDOW, number, "n")
    made = ledger.windows.built(taken, "file:///assembled/2", ledger.batches.manifest_files(NAME, 1))
    ledger.windows.publish(ledger.windows.begin_swap(made), "file:///2", "c")


def taken(ledger: SqlLedger, one: Due, nonce: str = "aa") -> Delivered:
    return ledger.deliveries.take(NAME, SHOP, one, "digest", nonce)


def state(ledger: SqlLedger) -> DeliveryState:
    row = ledger.deliveries.get(NAME, SHOP, WINDOW.start_ms)
    assert row is not None
    return row.state


def test_a_window_is_due_until_it_stands(ledger: SqlLedger, now: list[int]) -> None:
    assert ledger.deliveries.due(NAME, SHOP, None, 9) == []
    one = published(ledger)
    assert (one.window_ms, one.generation, one.published_ms, one.row) == (0, 1, now[0], None)
    row = taken(ledger, one)
    assert (row.epoch, row.state, row.since_ms) == (1, "SENDING", now[0])
    assert due(ledger).row == row
    assert ledger.deliveries.holds(row)
    now[0] += 5
    stands = ledger.deliveries.stands(row, CONTENT, PLACE)
    assert ledger.deliveries.get(NAME, SHOP, 0) == stands
    assert (stands.content, stands.stood, stands.stood_ms, stands.state) == (CONTENT, 1, now[0], "STANDING")
    assert ledger.deliveries.due(NAME, SHOP, None, 9) == []
    assert due_elsewhere(ledger) == 1


def due_elsewhere(ledger: SqlLedger) -> int:
    return len(ledger.deliveries.due(NAME, "other", None, 9))


def test_a_newer_generation_is_due_again_and_overtakes_a_try(ledger: SqlLedger) -> None:
    row = taken(ledger, published(ledger))
    again_published(ledger)
    assert not ledger.deliveries.holds(row)
    stands = ledger.deliveries.stands(row, CONTENT, PLACE)  # what stands there is what was read back
    newer = due(ledger)
    assert (newer.generation, newer.row) == (2, stands)
    with pytest.raises(LostComparison, match="not in force"):
        taken(ledger, Due(window_ms=0, generation=1, published_ms=0, row=stands))
    second = taken(ledger, newer, "bb")
    assert (second.generation, second.epoch, second.stood) == (2, 2, 1)
    with pytest.raises(LostComparison):
        ledger.deliveries.stands(row, CONTENT, PLACE)


def test_a_try_that_was_overtaken_changes_nothing(ledger: SqlLedger) -> None:
    first = taken(ledger, published(ledger))
    second = taken(ledger, due(ledger), "bb")
    assert second.epoch == 2
    assert not ledger.deliveries.holds(first)
    ledger.deliveries.failed(first, "too late")
    ledger.deliveries.refuse(first, "too late")
    assert ledger.deliveries.get(NAME, SHOP, 0) == second
    with pytest.raises(LostComparison):
        ledger.deliveries.stands(first, CONTENT, PLACE)
    ledger.deliveries.failed(second, "no answer")
    assert due(ledger).why == "no answer"
    assert ledger.deliveries.needed(NAME, SHOP, [first.attempt(0).staging, second.attempt(0).staging]) == {
        second.attempt(0).staging
    }


def test_what_a_try_read_back_is_remembered_until_the_next_one(ledger: SqlLedger) -> None:
    first = taken(ledger, published(ledger))
    ledger.deliveries.failed(first, "a replica lags", CONTENT)
    (row,) = ledger.deliveries.within(NAME, SHOP, 0, 1)
    assert (row.state, row.why, row.lacks) == ("SENDING", "a replica lags", CONTENT)
    ledger.deliveries.failed(row, "no answer")
    assert ledger.deliveries.get(NAME, SHOP, 0) == replace(row, why="no answer")
    second = taken(ledger, due(ledger), "bb")
    ledger.deliveries.failed(first, "too late", CONTENT)
    assert ledger.deliveries.get(NAME, SHOP, 0) == second
    assert ledger.deliveries.stands(second, CONTENT, PLACE).lacks is None


def test_a_refusal_waits_for_a_person_or_a_newer_generation(ledger: SqlLedger) -> None:
    row = taken(ledger, published(ledger))
    ledger.deliveries.refuse(row, "it does not fit")
    assert ledger.deliveries.due(NAME, SHOP, None, 9) == []
    (one,) = ledger.deliveries.in_force(NAME, SHOP, 0, 1)
    assert one.row is not None
    again = ledger.deliveries.again(one.row, "a person says so")
    assert (again.state, due(ledger).why) == ("PENDING", "a person says so")
    ledger.deliveries.refuse(taken(ledger, due(ledger)), "it does not fit")
    again_published(ledger)
    assert due(ledger).generation == 2


def test_a_generation_is_skipped_and_the_next_is_not(ledger: SqlLedger) -> None:
    one = published(ledger)
    left_out = ledger.deliveries.skip(NAME, SHOP, one, "digest", "not wanted")
    assert ledger.deliveries.get(NAME, SHOP, 0) == left_out
    assert ledger.deliveries.due(NAME, SHOP, None, 9) == []
    with pytest.raises(LostComparison):
        ledger.deliveries.skip(NAME, SHOP, one, "digest", "read before")
    again_published(ledger)
    row = taken(ledger, due(ledger))
    assert row.epoch == 1
    assert ledger.deliveries.skip(NAME, SHOP, due(ledger), "digest", "not this one").epoch == 1
    assert state(ledger) == "SKIPPED"


def test_windows_before_since_wait_until_somebody_names_them(ledger: SqlLedger) -> None:
    one = published(ledger)
    assert ledger.deliveries.due(NAME, SHOP, 1, 9) == []
    row = ledger.deliveries.stands(taken(ledger, one), CONTENT, PLACE)
    again_published(ledger)
    (later,) = ledger.deliveries.due(NAME, SHOP, 1, 9)
    assert later.row == row


def test_an_epoch_that_a_system_has_seen_is_gone_above(ledger: SqlLedger) -> None:
    row = ledger.deliveries.take(NAME, SHOP, published(ledger), "digest", "aa", 7)
    assert (row.epoch, row.token.epoch) == (8, 8)


def test_of_two_tries_at_once_one_wins(ledger: SqlLedger, open_ledger: Callable[[], SqlLedger]) -> None:
    one, outcomes, barrier = published(ledger), list[object](), threading.Barrier(2)

    def run(nonce: str) -> None:
        me = open_ledger()
        barrier.wait()
        try:
            outcomes.append(taken(me, one, nonce).nonce)
        except LostComparison:
            outcomes.append(None)

    threads = [threading.Thread(target=run, args=(nonce,)) for nonce in ("aa", "bb")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert outcomes.count(None) == 1
    row = ledger.deliveries.get(NAME, SHOP, 0)
    assert row is not None
    assert (row.epoch, row.nonce in outcomes) == (1, True)


# ---------------------------------------------------------------- where it goes


def test_another_place_makes_due_what_stands_or_is_under_way(ledger: SqlLedger, now: list[int]) -> None:
    deliveries = ledger.deliveries
    assert deliveries.goes_to(NAME, SHOP) is None
    row = deliveries.stands(taken(ledger, published(ledger)), CONTENT, PLACE)
    assert deliveries.move(NAME, SHOP, None, PLACE, "") == 0
    first = deliveries.goes_to(NAME, "shop.late")
    assert first == Place(place=PLACE, number=1, earlier=(), since_ms=now[0])
    assert deliveries.get(NAME, SHOP, 0) == row, "what stood before anybody asked is believed"
    assert deliveries.move(NAME, SHOP, first, "pg other", "the YAML") == 1
    assert (due(ledger).row.state, due(ledger).why) == ("PENDING", "the YAML")  # type: ignore[union-attr]
    second = deliveries.goes_to(NAME, SHOP)
    assert second == Place(place="pg other", number=2, earlier=(PLACE,), since_ms=now[0])
    tried = taken(ledger, due(ledger))
    with pytest.raises(LostComparison, match="goes to \\(pg other\\) by now"):
        deliveries.stands(tried, CONTENT, PLACE)
    assert deliveries.move(NAME, SHOP, second, PLACE, "back") == 1, "a try under way"
    with pytest.raises(LostComparison):
        deliveries.stands(tried, CONTENT, PLACE)
    back = deliveries.goes_to(NAME, SHOP)
    assert back is not None
    assert (back.number, back.earlier) == (3, ("pg other",))
    with pytest.raises(LostComparison):
        deliveries.move(NAME, SHOP, second, "pg third", "late")
    with pytest.raises(LostComparison):
        deliveries.move(NAME, SHOP, None, "pg third", "late")
    assert [e.what for e in ledger.reads.events(NAME, 9, "delivery shop")] == ["delivery moved"] * 2


def test_what_was_refused_or_left_out_stays_so_at_another_place(ledger: SqlLedger) -> None:
    ledger.deliveries.move(NAME, SHOP, None, PLACE, "")
    ledger.deliveries.refuse(taken(ledger, published(ledger)), "it does not fit")
    assert ledger.deliveries.move(NAME, SHOP, ledger.deliveries.goes_to(NAME, SHOP), "pg other", "") == 0
    assert state(ledger) == "REFUSED"


def test_a_try_that_is_begun_while_the_place_changes_does_not_stand(
    ledger: SqlLedger, open_ledger: Callable[[], SqlLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change looks for tries, and has not ended yet: it does not see one that is begun by then."""
    one = published(ledger)
    ledger.deliveries.move(NAME, SHOP, None, PLACE, "")
    looked, begun, said = threading.Event(), threading.Event(), list[object]()
    mover, move_all = open_ledger(), moves.move_all

    def slowly(*args: Any, **sets: Any) -> int:
        count = move_all(*args, **sets)
        looked.set()
        assert mover.deliveries._store.engine.dialect.name == "sqlite" or begun.wait(20)
        return count

    def to_the_old_place() -> None:
        me = open_ledger()
        assert looked.wait(20)
        row = taken(me, one)
        begun.set()
        try:
            said.append(me.deliveries.stands(row, CONTENT, PLACE).state)
        except LostComparison:
            said.append("lost")

    monkeypatch.setattr(moves, "move_all", slowly)
    thread = threading.Thread(target=to_the_old_place)
    thread.start()
    assert mover.deliveries.move(NAME, SHOP, mover.deliveries.goes_to(NAME, SHOP), "pg other", "") == 0
    thread.join()
    assert (said, state(ledger)) == (["lost"], "SENDING")


def test_how_far_each_delivery_is(ledger: SqlLedger) -> None:
    deliveries = [Delivery(name=n, kind="postgresql", conn_id="pg", table="t") for n in (SHOP, "other")]

    def told() -> list[tuple[int, int, int, int]]:
        found = ledger.reads.backlogs({NAME: deliveries})[NAME]
        assert [b.name for b in found] == [SHOP, "other"]
        return [(b.standing, b.due, b.refused, b.skipped) for b in found]

    assert told() == [(0, 0, 0, 0), (0, 0, 0, 0)]
    one = published(ledger)
    assert told() == [(0, 1, 0, 0), (0, 1, 0, 0)]
    row = taken(ledger, one)
    ledger.deliveries.failed(row, "no answer")
    backlog, _ = ledger.reads.backlogs({NAME: deliveries})[NAME]
    assert backlog.oldest is not None
    assert (backlog.oldest.why, backlog.newest_ms) == ("no answer", None)
    ledger.deliveries.stands(row, CONTENT, PLACE)
    assert told() == [(1, 0, 0, 0), (0, 1, 0, 0)]
    again_published(ledger)
    ledger.deliveries.refuse(taken(ledger, due(ledger)), "no")
    assert told() == [(0, 0, 1, 0), (0, 1, 0, 0)]
    backlog, _ = ledger.reads.backlogs({NAME: deliveries})[NAME]
    assert backlog.refusal is not None
    assert backlog.refusal.row is not None
    assert backlog.refusal.row.why == "no"


def test_steps_are_in_the_event_log(ledger: SqlLedger) -> None:
    row = taken(ledger, published(ledger))
    stands = ledger.deliveries.stands(row, CONTENT, PLACE)
    ledger.deliveries.again(stands, "rows were deleted")
    found = ledger.reads.events(NAME, 9, "delivery shop 1970-01-01T00:00Z")
    assert [(e.what, e.detail.get("why")) for e in found] == [
        ("to be delivered again", "rows were deleted"),
        ("delivered", None),
    ]
