"""What a run's conf may ask for: anybody who can trigger a run writes it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from core_values import HOUR, T0

from tidegate.core.base.errors import AskedWrong
from tidegate.core.base.instants import iso
from tidegate.core.replay.request import LONGEST_REASON, MOST_WINDOWS, Asked, asked, instant, reason
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.states import WindowKey

HOURS = Windows(size_ms=HOUR, timezone="UTC", start_ms=T0, watermark_delay_ms=HOUR)
OWN = WindowKey(T0 + 9 * HOUR, T0 + 10 * HOUR)


def key(hour: int) -> WindowKey:
    return WindowKey(T0 + hour * HOUR, T0 + (hour + 1) * HOUR)


def test_nothing_said_means_a_replay_of_the_runs_own_window() -> None:
    assert asked({}, HOURS, OWN) == Asked("replay", (OWN,))
    assert asked({"do": "reopen"}, HOURS, OWN) == Asked("reopen", (OWN,))
    assert asked({"do": "reread", "why": "x"}, HOURS, OWN) == Asked("reread", (OWN,), "x")


@pytest.mark.parametrize(
    "said",
    ["2013-01-05T04:00Z", "2013-01-05T04:00", " 2013-01-05T04:37:12+00:00 ", "2013-01-05T05:00+01:00"],
)
def test_an_instant_in_the_window_names_it(said: str) -> None:
    assert asked({"window": said}, HOURS, None).windows == (key(4),)


def test_a_range_is_of_the_windows_that_begin_in_it() -> None:
    assert asked({"from": "2013-01-05T04:00Z", "until": "2013-01-05T07:00Z"}, HOURS, OWN).windows == (
        key(4),
        key(5),
        key(6),
    )
    assert asked({"from": "2013-01-05T04:01Z", "until": "2013-01-05T06:01Z"}, HOURS, OWN).windows == (key(5), key(6))
    month = asked({"from": "2013-01-05", "until": "2013-02-05"}, HOURS, OWN).windows
    assert (len(month), month[0], month[-1].end_ms) == (744, key(0), T0 + 744 * HOUR)


def test_days_are_the_zones() -> None:
    start = int(datetime(2013, 3, 31, tzinfo=UTC).timestamp() * 1000) - HOUR
    days = Windows(size_ms=24 * HOUR, timezone="Europe/Berlin", start_ms=start, watermark_delay_ms=HOUR)
    (one,) = asked({"window": "2013-03-31T12:00Z"}, days, None).windows
    assert (one.start_ms, one.end_ms - one.start_ms) == (start, 23 * HOUR)


@pytest.mark.parametrize(
    "whole",
    [
        Asked("replay", (key(4),), "why not", by="board, op"),
        Asked("reopen", (key(4), key(5)), "the outage", over_budget=True),
        Asked("rollback", (key(4),), "wrong columns", generation=2),
        Asked("replay", tuple(key(n) for n in range(100))),
    ],
)
def test_what_the_board_writes_is_read_back(whole: Asked) -> None:
    assert asked(json.loads(json.dumps(whole.conf())), HOURS, None) == whole


HOSTILE: list[tuple[Any, str]] = [
    ([], r"no object of keys and values: \[\]"),
    ("replay", "no object of keys and values: 'replay'"),
    ({"do": "drop table"}, "asks to do 'drop table'"),
    ({"do": ["replay"]}, "asks to do"),
    ({"do": {"replay": 1}}, "asks to do"),
    ({"windw": "2013-01-05T04:00Z"}, "an unknown key: 'windw'"),
    ({"x" * 10_000: 1}, "an unknown key"),
    ({"window": None}, "`window` is no instant"),
    ({"window": 1357358400}, "`window` is no instant"),
    ({"window": True}, "`window` is no instant"),
    ({"window": ["2013-01-05T04:00Z"]}, "`window` is no instant"),
    ({"window": "'; DROP TABLE windows; --"}, "`window` is no instant"),
    ({"window": "2013-01-05T04:00Z\0"}, "`window` is no instant"),
    ({"window": "2" * 100_000}, "`window` is no instant"),
    ({"window": "99999-01-01T00:00Z"}, "`window` is no instant"),
    ({"from": "x", "until": "2013-01-05"}, "`from` is no instant such as .*: 'x'"),
    ({"from": "2013-01-05", "until": "y"}, "`until` is no instant such as .*: 'y'"),
    ({"window": "2013-01-05T04:00Z", "from": "2013-01-05"}, "one of both"),
    ({"from": "2013-01-05"}, "has both"),
    ({"until": "2013-01-05"}, "has both"),
    ({"from": "2013-01-06", "until": "2013-01-05"}, "no window begins"),
    ({"from": "2013-01-05", "until": "2013-01-05"}, "no window begins"),
    (
        {"from": "2013-01-05T04:10Z", "until": "2013-01-05T04:50Z"},
        "no window begins from 2013-01-05T04:10Z until 2013-01-05T04:50Z",
    ),
    ({"from": "0001-01-01", "until": "9999-12-31"}, f"more than {MOST_WINDOWS:,} windows|no window is at"),
    (
        {"from": "2013-01-01", "until": "2014-01-01"},
        f"more than {MOST_WINDOWS:,} windows from 2013-01-01T00:00Z until 2014-01-01T00:00Z",
    ),
    ({"do": "rollback", "why": "x"}, "names the `generation`"),
    ({"do": "rollback", "generation": 1}, "a rollback needs a reason"),
    ({"do": "rollback", "generation": 1, "why": " \x00\n "}, "needs a reason"),
    ({"do": "rollback", "generation": 1, "why": "x", "from": "2013-01-05", "until": "2013-01-06"}, "of one window"),
    (
        {"do": "rollback", "generation": 1, "why": "x", "from": "2013-01-05T04:00Z", "until": "2013-01-05T06:00Z"},
        "of one window",
    ),
    ({"do": "reread"}, "a second reading needs a reason"),
    (
        {"do": "reread", "why": "x", "from": "2013-01-05T04:00Z", "until": "2013-01-05T06:00Z"},
        "a second reading is of one window",
    ),
    ({"do": "rollback", "generation": True, "why": "x"}, "not True"),
    ({"do": "rollback", "generation": "1", "why": "x"}, "not '1'"),
    ({"do": "rollback", "generation": 0, "why": "x"}, "not 0"),
    ({"do": "rollback", "generation": -1, "why": "x"}, "not -1"),
    ({"do": "rollback", "generation": 2**80, "why": "x"}, "not 12089"),
    ({"do": "rollback", "generation": 2**31, "why": "x"}, "not 2147483648 of rollback"),
    ({"generation": 1}, "of replay"),
    ({"do": "reopen", "over_budget": True}, "`over_budget` needs a reason"),
    ({"do": "reopen", "over_budget": "yes", "why": "x"}, "true or false, .*: not 'yes' of reopen"),
    ({"over_budget": True, "why": "x"}, "of replay"),
]


@pytest.mark.parametrize(("conf", "says"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_conf_that_asks_for_what_there_is_not_is_refused(conf: Any, says: str) -> None:
    with pytest.raises(AskedWrong, match=says) as refused:
        asked(conf, HOURS, OWN)
    assert len(str(refused.value)) < 800
    assert "trigger a new run" in str(refused.value)


def test_bounds_belong_to_what_may_be_asked() -> None:
    newest = asked({"do": "rollback", "generation": 2**31 - 1, "why": "x"}, HOURS, OWN)
    assert newest.generation == 2**31 - 1
    one = {"from": "2013-01-05T04:00Z", "until": "2013-01-05T05:00Z"}
    assert asked({"do": "rollback", "generation": 1, "why": "x", **one}, HOURS, OWN).windows == (key(4),)
    most = asked({"from": "2013-01-05", "until": iso(T0 + MOST_WINDOWS * HOUR)}, HOURS, None).windows
    assert len(most) == MOST_WINDOWS
    with pytest.raises(AskedWrong, match="more than"):
        asked({"from": "2013-01-05", "until": iso(T0 + (MOST_WINDOWS + 1) * HOUR)}, HOURS, None)


def test_instants_of_up_to_forty_characters_are_read() -> None:
    assert instant("2013-01-05T04:00:00.123456+00:00".ljust(40), "window") == T0 + 4 * HOUR + 123
    with pytest.raises(AskedWrong):
        instant("2013-01-05T04:00:00.123456+00:00".ljust(41), "window")


def test_where_no_calendar_has_windows_there_are_none() -> None:
    days = Windows(size_ms=24 * HOUR, timezone="Europe/Berlin", start_ms=T0, watermark_delay_ms=HOUR)
    for said in ({"window": "0001-01-01T00:00Z"}, {"from": "0001-01-01T00:00Z", "until": "2013-01-05"}):
        with pytest.raises(AskedWrong, match=r"no window is at 0*1-01-01T00:00Z"):
            asked(said, days, None)


@pytest.mark.parametrize(("length", "shown"), [(1, 1), (78, 78), (79, 78)])
def test_foreign_text_is_cut_at_eighty_characters(length: int, shown: int) -> None:
    """The quotes are two of them, and an ellipsis stands for what is gone."""
    with pytest.raises(AskedWrong) as refused:
        asked({"do": "x" * length}, HOURS, OWN)
    found = str(refused.value)
    assert ("…" in found) == (length > shown)
    assert found.count("x" * shown) == 1
    assert "x" * (shown + 1) not in found


def test_a_run_without_a_window_of_its_own_needs_one_in_its_conf() -> None:
    with pytest.raises(AskedWrong, match="its conf names none"):
        asked({"do": "reopen"}, HOURS, None)


def test_a_reason_is_one_line_that_hides_nothing() -> None:
    assert reason("a\nb\tc\0d\x1b[31me\u202ef\u200bg\ud800h") == "a b c d [31me f g h"
    assert reason("  <script>alert('1')</script> {{7*7}} ") == "<script>alert('1')</script> {{7*7}}"
    assert reason("é 漢字 😀") == "é 漢字 😀"
    long = reason("x" * 1_000_000)
    assert (len(long), long[-1]) == (LONGEST_REASON, "…")
    whole = "x" * LONGEST_REASON
    assert reason(whole) == whole
    assert reason(whole + "y") == whole[1:] + "…"
    assert reason(None) == reason(["why"]) == reason({"why": 1}) == reason(7) == ""
