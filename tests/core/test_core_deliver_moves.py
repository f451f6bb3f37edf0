"""How a delivery moves, when it differs or is late, and what its tables hold."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal as Number

import pytest
from core_values import PIPELINE

from tidegate.core.base.errors import DeliveryAhead, LostComparison
from tidegate.core.base.hivetypes import parse
from tidegate.core.base.transition import NO_ROW
from tidegate.core.deliver import transitions as moves
from tidegate.core.deliver import units
from tidegate.core.deliver.columns import delivered_columns, table_of
from tidegate.core.deliver.due import (
    by_columns_of_today,
    differs,
    in_words,
    is_late,
    lag_ms,
    lost,
    of_window_in_words,
    unknown_generation,
)
from tidegate.core.deliver.nested import text_of
from tidegate.core.deliver.port import Attempt, Content, Missing, Standing
from tidegate.core.deliver.states import (
    PENDING,
    REFUSED,
    SENDING,
    SKIPPED,
    STANDING,
    Backlog,
    Delivered,
    DeliveryState,
    Due,
)
from tidegate.core.deliver.units import held_in_words, held_way_on, sides_beside
from tidegate.core.spec.pipeline import Delivery
from tidegate.core.target.port import Token
from tidegate.core.window.states import WindowKey

HOUR = 3_600_000
CONTENT = Content(rows=1200, checksum=77)
ROW = Delivered(
    pipeline="p",
    name="ch",
    window_ms=HOUR,
    generation=4,
    digest="d4",
    state=SENDING,
    epoch=6,
    nonce="ab",
    since_ms=9,
    stood=3,
    content=CONTENT,
    stood_ms=8,
)
DUE = Due(window_ms=HOUR, generation=5, published_ms=HOUR)
TRY = {"generation": 4, "epoch": 6, "nonce": "ab"}
NAMED = {"pipeline": "p", "name": "ch", "window_ms": HOUR}


def row(state: DeliveryState, **more: object) -> Delivered:
    return replace(ROW, state=state, **more)  # type: ignore[arg-type]


# ---------------------------------------------------------------- moves


def test_the_first_try_has_no_row_to_compare() -> None:
    made = moves.take("p", "ch", DUE, "d5", "cd", above=0)
    assert (made.transition, made.states, made.as_read, made.row) == (moves.BEGIN, (NO_ROW,), {}, NAMED)
    assert made.after == Delivered(
        pipeline="p", name="ch", window_ms=HOUR, generation=5, digest="d5", state=SENDING, epoch=1, nonce="cd",
        since_ms=0,
    )  # fmt: skip
    assert made.sets == {"generation": 5, "digest": "d5", "epoch": 1, "nonce": "cd", "why": ""}
    assert made.subject == "delivery ch 1970-01-01T01:00Z"
    assert made.what == "sending 1970-01-01T01:00Z to ch"


def test_each_try_has_an_epoch_above_all_earlier_ones() -> None:
    """Also above those that only the further system has seen (R11); what stands there is still known."""
    made = moves.take("p", "ch", replace(DUE, row=row(STANDING, why="odd")), "d5", "cd", above=3)
    assert (made.transition, made.states, made.as_read) == (moves.TAKE, (STANDING,), TRY)
    assert made.after == row(SENDING, generation=5, digest="d5", epoch=7, nonce="cd", since_ms=0)
    assert made.sets == {"generation": 5, "digest": "d5", "epoch": 7, "nonce": "cd", "why": ""}
    assert moves.take("p", "ch", replace(DUE, row=ROW), "d5", "cd", above=9).after.epoch == 10
    assert moves.take("p", "ch", DUE, "d5", "cd", above=9).after.epoch == 10


def test_it_stands_once_its_content_was_read_back() -> None:
    read_back = Content(rows=5, checksum=2**63 + 1)
    made = moves.stand(row(SENDING, why="odd"), read_back)
    assert (made.transition, made.as_read, made.row) == (moves.STAND, TRY, NAMED)
    assert made.after == row(STANDING, stood=4, content=read_back)
    assert made.sets == {"why": "", "stood": 4, "rows": 5, "checksum": str(2**63 + 1)}
    assert made.detail == {"generation": 4, "epoch": 6, "rows": 5}


def test_content_that_was_read_back_and_is_not_the_windows_is_known_and_does_not_count() -> None:
    read_back = Content(rows=5, checksum=2**63 + 1)
    made = moves.lack(ROW, "3 rows there", read_back)
    assert (made.transition, made.as_read, made.row) == (moves.LACK, TRY, NAMED)
    assert made.after == row(SENDING, why="3 rows there", stood=4, content=read_back)
    assert made.sets == {"why": "3 rows there", "stood": 4, "rows": 5, "checksum": str(2**63 + 1)}


def test_a_side_tables_delivery_counts_batches() -> None:
    """Names in the YAML have no dots."""
    late = units.name_of("ch", "late")
    assert (late, units.side_of(late), units.base_of(late)) == ("ch.late", "late", "ch")
    assert (units.side_of("ch"), units.base_of("ch")) == ("", "ch")
    assert (units.in_words("late", 7), units.in_words("", HOUR)) == ("batch 7", "1970-01-01T01:00Z")
    assert (units.id_of("late", 7), units.id_of("", HOUR)) == ("7", "19700101T010000Z")
    assert [units.parsed(side, units.id_of(side, HOUR)) for side in ("", "dirty")] == [HOUR, HOUR]
    assert (units.counted("late", 1200), units.counted("", 1)) == ("1,200 batches", "1 window")
    assert units.key_of(7) == WindowKey(7, 8)
    words = in_words(Backlog(name=late, standing=3, newest_ms=12), HOUR)
    assert words == "3 batches stand there, up to batch 12"


def test_last_words_and_refusals() -> None:
    failed, refused = moves.fail(ROW, "broke"), moves.refuse(ROW, "no")
    assert (failed.transition, failed.after, failed.sets) == (moves.FAIL, replace(ROW, why="broke"), {"why": "broke"})
    assert failed.detail == {}
    assert (refused.transition, refused.after, refused.sets) == (moves.REFUSE, row(REFUSED, why="no"), {"why": "no"})
    assert refused.detail == {"generation": 4, "epoch": 6, "why": "no"}
    for late in (moves.fail, moves.refuse):
        with pytest.raises(LostComparison):
            late(row(STANDING), "late")


def test_again_leaves_what_stands() -> None:
    """A try under way may not say any more that it stands."""
    made = moves.again(row(STANDING), "wanted")
    assert (made.transition, made.after, made.sets) == (moves.AGAIN, row(PENDING, why="wanted"), {"why": "wanted"})
    assert (made.detail, made.as_read) == ({"generation": 4, "why": "wanted"}, TRY)
    assert moves.again(ROW, "the table was missing").after.state == PENDING
    with pytest.raises(LostComparison):
        moves.again(row(PENDING), "it is wanted already")


def test_what_stood_in_a_table_that_is_missing_and_what_may_come_to_say_so() -> None:
    rows = [row(state, content=Content(rows=3, checksum=1)) for state in DeliveryState]
    at = ROW.window_ms
    assert [one.state for one in lost(rows, Missing())] == [SENDING, STANDING]
    assert [one.state for one in lost(rows, Missing(left=((at, 2),)))] == [SENDING, STANDING]
    assert [one.state for one in lost(rows, Missing(left=((at, 3),)))] == [SENDING], "it had no row in that part"


def test_skipping_a_window_that_was_never_sent() -> None:
    made = moves.skip("p", "ch", DUE, "d5", "old")
    assert (made.transition, made.after.state, made.after.why) == (moves.SKIP_FIRST, SKIPPED, "old")
    assert made.sets == {"generation": 5, "digest": "d5", "why": "old", "epoch": 0, "nonce": ""}
    assert (made.after.epoch, made.after.nonce) == (0, "")
    assert made.detail == {"generation": 5, "why": "old"}


def test_skipping_keeps_the_newest_try() -> None:
    """A later try's epoch has to be above it."""
    made = moves.skip("p", "ch", replace(DUE, row=ROW), "d5", "old")
    assert (made.transition, made.states, made.as_read) == (moves.SKIP, (SENDING,), TRY)
    assert made.after == row(SKIPPED, generation=5, digest="d5", why="old", since_ms=0)
    assert made.sets == {"generation": 5, "digest": "d5", "why": "old"}


@pytest.mark.parametrize(
    ("state", "generation", "refused"),
    [(STANDING, 5, True), (SKIPPED, 5, True), (REFUSED, 5, False), (STANDING, 4, False), (SKIPPED, 4, False)],
)
def test_a_generation_that_stands_is_not_skipped(state: DeliveryState, generation: int, refused: bool) -> None:
    due = replace(DUE, row=row(state, generation=generation))
    if not refused:
        assert moves.skip("p", "ch", due, "d5", "old").transition is moves.SKIP
        return
    with pytest.raises(LostComparison, match=f"generation 5 of 1970-01-01T01:00Z is {state} at ch"):
        moves.skip("p", "ch", due, "d5", "old")


def test_a_try_is_named_by_its_row() -> None:
    token = Token(pipeline="p", unit=HOUR, generation=4, epoch=6, digest="d4")
    assert ROW.attempt(12) == Attempt(token=token, nonce="ab", rows=12)
    assert [replace(DUE, row=row(s, why="odd")).why for s in DeliveryState] == ["odd", "odd", "", "", ""]
    assert DUE.why == ""


# ---------------------------------------------------------------- what stands there


def test_d8_what_stands_there_is_what_was_read_back() -> None:
    assert differs(ROW, Standing(content=CONTENT)) is None
    assert differs(ROW, Standing(content=CONTENT, token=ROW.token)) is None
    other = Standing(content=CONTENT, token=replace(ROW.token, generation=2, epoch=3))
    assert differs(ROW, other) == "its token is of generation 2, try 3"
    assert differs(ROW, Standing(content=replace(CONTENT, rows=1))) == "1 row there, 1,200 were delivered"
    assert differs(ROW, Standing(content=replace(CONTENT, checksum=1))) == (
        "values there are not those that were delivered"
    )
    assert differs(replace(ROW, content=None), Standing(content=CONTENT)) == "nobody has read it back"


def test_d8_values_may_differ_for_the_columns_of_today_alone() -> None:
    """Rows and the token are of no columns."""
    other = Standing(content=replace(CONTENT, checksum=1))
    assert by_columns_of_today(ROW, other)
    assert by_columns_of_today(ROW, replace(other, token=ROW.token))
    assert not by_columns_of_today(ROW, replace(other, token=replace(ROW.token, epoch=1)))
    assert not by_columns_of_today(ROW, Standing(content=replace(CONTENT, rows=1)))
    assert not by_columns_of_today(replace(ROW, content=None), other)


def test_d11_a_window_waits_until_its_rows_have_left_another_table() -> None:
    assert held_in_words("shop", ()) == ""
    for count, shown in (
        (1, "batch 1"),
        (2, "batches 1, 2"),
        (3, "batches 1, 2, 3"),
        (5, "batches 1, 2, 3 and 2 more"),
    ):
        held = [("late", n + 1) for n in range(count)]
        assert held_in_words("shop", held) == (
            f"it holds late rows of {shown}, and shop.late does not stand without them yet"
        )
    assert held_in_words("shop.late", [("dirty", 7), ("late", 8)]) == (
        "it holds dirty rows of batch 7, late rows of batch 8, "
        "and shop.dirty and shop.late do not stand without them yet"
    )
    assert sides_beside("shop", ["shop", "shop.late", "other.dirty"]) == ["late"]
    assert sides_beside("shop.late", ["shop", "shop.late", "shop.dirty"]) == ["late", "dirty"]
    assert Backlog(name="shop").why == ""


def test_d11_what_to_do_about_a_window_that_waits() -> None:
    send = "tidegate deliver p --to "
    assert held_way_on("p", "shop", [("late", 7), ("late", 8)]) == (
        f"nothing, if shop.late gets on: the next run sends it; to send now: {send}shop.late, then {send}shop; if that "
        f"table cannot be sent: {send}shop.late --batch 7 --skip --why '...' (such a row may be in two tables there "
        "then)"
    )
    both = held_way_on("p", "shop.late", [("dirty", 7), ("late", 8)])
    assert both.startswith("nothing, if shop.dirty and shop.late get on: the next run sends it; to send now: ")
    assert f"{send}shop.dirty, {send}shop.late, then {send}shop.late; " in both
    assert f"{send}shop.dirty --batch 7 --skip" in both


def test_the_lag_is_that_of_the_window_that_has_waited_longest() -> None:
    waits = Backlog(name="ch", oldest=DUE)
    assert (lag_ms(waits, HOUR + 5), lag_ms(waits, HOUR - 5), lag_ms(Backlog(name="ch"), HOUR)) == (5, 0, 0)
    delivery = Delivery(kind="clickhouse", name="ch", conn_id="c", table="t", sla_ms=5)
    assert [is_late(delivery, waits, HOUR + n) for n in (5, 6)] == [False, True]
    assert not is_late(replace(delivery, sla_ms=None), waits, 9 * HOUR)


def test_a_backlog_in_words() -> None:
    assert in_words(Backlog(name="ch"), 0) == "0 windows stand there"
    assert in_words(Backlog(name="ch", standing=1, newest_ms=0), 0) == "1 window stands there, up to 1970-01-01T00:00Z"
    one = Backlog(name="ch", standing=1200, due=1, oldest=DUE)
    assert in_words(one, HOUR + 720_000) == (
        "1,200 windows stand there; 1 waits, the oldest (1970-01-01T01:00Z) for 12 min"
    )
    many = Backlog(name="ch", due=1500, oldest=replace(DUE, row=row(PENDING, why="odd")), refused=2, skipped=3)
    assert in_words(many, HOUR + 720_000) == (
        "0 windows stand there; 1,500 wait, the oldest (1970-01-01T01:00Z) for 12 min: odd; 2 refused; 3 skipped"
    )


@pytest.mark.parametrize(
    ("found", "current", "words"),
    [
        (None, 4, "generation 4 was never sent"),
        (row(STANDING, stood=4), 4, "generation 4 stands there (1,200 rows)"),
        (
            row(STANDING, generation=3, why="odd"),
            4,
            "generation 3 stands there (1,200 rows); generation 4 is to be sent",
        ),
        (
            row(SENDING, stood=None, content=None, why="odd"),
            4,
            "nothing stands there; generation 4 is SENDING (try 6): odd",
        ),
        (
            row(REFUSED),
            5,
            "generation 3 stands there (1,200 rows); generation 4 is REFUSED (try 6); generation 5 is to be sent",
        ),
    ],
)
def test_a_window_in_words(found: Delivered | None, current: int, words: str) -> None:
    assert of_window_in_words(found, current) == words


def test_r11_a_generation_that_the_ledger_has_lost_needs_a_person() -> None:
    refused = unknown_generation("p", DUE, DeliveryAhead("ahead", generation=7))
    assert str(refused).startswith(
        "p 1970-01-01T01:00Z: generation 7 stands there, and the ledger knows 5 as the newest"
    )
    assert refused.retry is False
    assert "tidegate repair p --adopt" in refused.advice


# ---------------------------------------------------------------- tables and values


def test_a_delivered_table_begins_with_the_window_and_the_partitions() -> None:
    columns = delivered_columns(PIPELINE)
    assert [name for name, _ in columns] == ["_window", "carrier", "leg", "fare"]
    assert columns[:3] == (("_window", "timestamp"), ("carrier", "string"), ("leg", "int"))
    delivery = Delivery(kind="clickhouse", name="ch", conn_id="c", table="db.t", options=(("a", "b"),))
    made = table_of(PIPELINE, delivery)
    assert (made.pipeline, made.delivery, made.name) == ("flights", "ch", "db.t")
    assert (made.columns, made.options, made.spec) == (columns, (("a", "b"),), PIPELINE)
    assert (made.side, table_of(PIPELINE, replace(delivery, side="late")).side) == ("", "late")


SUMMER = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("array<int>", None, "null"),
        ("array<int>", [1, None, 3], "[1,null,3]"),
        ("array<decimal(20,2)>", [Number("1E+3"), Number("0.10")], "[1000,0.10]"),
        ("map<string,double>", [("é", 1.5), ('"', float("nan"))], '{"é":1.5,"\\"":"nan"}'),
        ("map<boolean,boolean>", {True: False}, '{"true":false}'),
        ("array<boolean>", [True], "[true]"),
        ("map<int,array<decimal(3,1)>>", {1: [Number("2E+1")]}, '{"1":[20]}'),
        ("map<date,bigint>", {datetime.date(2013, 1, 5): 2**60}, '{"2013-01-05":1152921504606846976}'),
        ("map<decimal(5,1),int>", {Number("2E+1"): 1}, '{"20":1}'),
        ("struct<b:binary,a:array<double>>", {"a": [float("-inf")], "b": b"\x01"}, '{"b":"AQ==","a":["-inf"]}'),
        (
            "array<timestamp>",
            [datetime.datetime(2013, 1, 5, 2, 0, 0, 5, tzinfo=SUMMER)],
            '["2013-01-05T00:00:00.000005Z"]',
        ),
    ],
)
def test_nested_values_as_json(kind: str, value: object, text: str) -> None:
    assert text_of(value, parse(kind)) == text


def test_what_a_missing_table_or_a_part_of_it_has_lost() -> None:
    """Rows of a window that the rest does not have; a part that is new had none."""
    stood = row(STANDING, content=Content(rows=3, checksum=1))
    empty = row(STANDING, content=Content(rows=0, checksum=0), window_ms=stood.window_ms + 1)
    unread, away = row(STANDING, content=None), row(SENDING)
    rows = [stood, empty, unread, away]
    assert lost(rows, Missing()) == [stood, empty, unread, away], "a try may have read its rows back before"
    assert lost(rows, Missing(left=((stood.window_ms, 3),))) == [unread, away]
    assert lost(rows, Missing(left=((stood.window_ms, 2),))) == [stood, unread, away]
    assert lost([stood, empty], Missing(left=())) == [stood]
