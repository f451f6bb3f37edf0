"""A window that is built on the one before waits until that one is published, and says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, T0

from tidegate.core.base.plain import dumps, loads
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window import turn
from tidegate.core.window.readiness import Certificate, certify
from tidegate.core.window.states import WindowKey
from tidegate.core.window.waits import Answer, Look, ReadyWait, Standing
from tidegate.core.window.watermark import PartitionFacts, TopicFacts

DAY = 24 * HOUR
HOURS = Windows(size_ms=HOUR, timezone="UTC", start_ms=T0, watermark_delay_ms=HOUR, idle="follow")
DAYS = replace(HOURS, size_ms=DAY, follows=True)
NOW = T0 + 1000 * HOUR
WAITS = "follows from 2013-01-06T00:00Z, which is not published yet"


def day(n: int) -> WindowKey:
    return WindowKey(T0 + n * DAY, T0 + (n + 1) * DAY)


def facts(days: float) -> TopicFacts:
    """The watermark is an hour before it."""
    part = PartitionFacts(partition=0, max_event_ms=T0 + int(days * DAY), drained=False, advanced_ms=NOW)
    return TopicFacts(7, NOW, (part,))


def judged(n: int, days: float, *published: int, windows: Windows = DAYS) -> Certificate:
    in_force = {day(m) for m in published}
    certificate = certify("p", windows, facts(days), day(n), NOW)
    return turn.in_turn(certificate, windows, in_force.__contains__)


def test_what_a_window_is_built_on() -> None:
    assert turn.before(day(2), DAYS) == day(1)
    assert turn.before(day(0), DAYS) is None, "the schedule begins there"
    assert turn.before(day(2), replace(DAYS, follows=False)) is None
    berlin = replace(DAYS, timezone="Europe/Berlin", start_ms=T0 - HOUR)
    spring = turn.before(WindowKey(1364767200000, 1364853600000), berlin)  # 2013-04-01 there
    assert spring == WindowKey(1364767200000 - 23 * HOUR, 1364767200000), "the clock went forward on that day"


def test_a_day_is_ready_once_the_day_before_is_published() -> None:
    held = judged(2, 9)
    assert (held.ready, held.reason, held.after) == (False, WAITS, day(1))
    assert held.text() == f"p 2013-01-07T00:00Z: blocked: {WAITS}"
    assert judged(2, 9, 1).ready
    assert not judged(2, 9, 0).ready, "not any earlier one"
    assert judged(0, 9).ready, "nothing comes before the first"
    assert judged(2, 9, 2).ready, "one that is published is never held: Clear looks at it"


def test_the_watermark_comes_first() -> None:
    blocked = judged(2, 2.5)
    assert (blocked.blockers, blocked.after) == ((0,), None)
    assert blocked == certify("p", DAYS, facts(2.5), day(2), NOW)


def test_a_day_waits_until_a_copy_of_the_table_is_whole() -> None:
    """Unless it is published already: a later copy that is under way takes nothing back."""
    windows = replace(DAYS, copied=True)
    certificate = certify("p", windows, facts(9), day(2), NOW)

    def judged(*published: int, whole: bool, ready: bool = True) -> Certificate:
        in_force = {day(n) for n in published}
        found = certificate if ready else certify("p", windows, facts(0), day(2), NOW)
        return turn.in_turn(found, windows, in_force.__contains__, lambda: whole)

    held = judged(1, whole=False)
    assert held == replace(
        certificate, ready=False, reason="the first full copy of the source's table is not whole yet"
    )
    assert judged(1, whole=True) == certificate
    assert judged(whole=True).after == day(1), "then the day before is waited for"
    assert judged(2, whole=False) == certificate
    assert judged(1, whole=False, ready=False).blockers == (0,), "the watermark comes first"
    assert turn.in_turn(certificate, windows, {day(1)}.__contains__) == certificate
    assert turn.in_turn(certificate, DAYS, {day(1)}.__contains__, lambda: False) == certificate, "no copy is needed"


def test_others_are_what_they_were_and_nobody_is_asked() -> None:
    def asked(key: WindowKey) -> bool:
        raise AssertionError(key)

    certificate = certify("p", HOURS, facts(9), WindowKey(T0 + HOUR, T0 + 2 * HOUR), NOW)
    assert turn.in_turn(certificate, HOURS, asked) is certificate
    assert "after" not in dumps(certificate), "earlier releases read it"
    assert "follows" not in dumps(HOURS)


def test_a_held_certificate_can_be_read_again() -> None:
    held = judged(2, 9)
    assert loads(Certificate, dumps(held)) == held


# ---------------------------------------------------------------- the wait in the triggerer


def waited(n: int, days: float, windows: Windows = DAYS, **standings: tuple[str, int | None]) -> Answer:
    """`d1=("CLOSED", 1)`: day 1 is closed, and generation 1 is in force."""
    known = {("p", day(int(name[1:])).start_ms): Standing(*v) for name, v in standings.items()}  # type: ignore[arg-type]
    wait = ReadyWait("p", windows, day(n))
    asked = {ref: known[ref] for ref in wait.refs() if ref in known}
    answer, left = wait.decide(Look({"p": facts(days)}, asked), NOW)
    assert left is wait
    return answer


def test_the_wait_says_what_the_certificate_says() -> None:
    answer = waited(2, 9)
    assert answer.certificate == judged(2, 9)
    assert (answer.done, answer.text) == (False, judged(2, 9).text())
    assert not waited(2, 9, d1=("CLOSED", None)).done
    assert waited(2, 9, d1=("CLOSED", 1)).done
    assert not waited(2, 2.5, d1=("CLOSED", 1)).done
    assert waited(0, 9).done


@pytest.mark.parametrize("state", ["CLOSING", "CLOSED"])
def test_a_day_that_is_closed_already_waits_too(state: str) -> None:
    answer = waited(2, 0, d2=(state, None))
    assert (answer.done, answer.text) == (False, f"p 2013-01-07T00:00Z: {state}, but it {WAITS}")
    assert waited(2, 0, d2=(state, None), d1=("CLOSED", 3)).done
    assert waited(2, 0, d2=(state, 1)).done


def test_the_wait_of_a_table_with_a_first_copy_asks_for_it() -> None:
    wait = ReadyWait("p", replace(DAYS, copied=True), day(0))
    for whole in (False, True):
        answer, _ = wait.decide(Look({"p": replace(facts(9), copied=whole)}, {}), NOW)
        assert (answer.done, turn.UNCOPIED in answer.text) == (whole, not whole)
    published = Look({"p": facts(9)}, {("p", T0): Standing("OPEN", 1)})
    assert wait.decide(published, NOW)[0].done, "one that is published is never held"
    assert not wait.decide(Look({}, {}), NOW)[0].done


def test_the_wait_of_others_asks_for_its_window_alone() -> None:
    assert ReadyWait("p", HOURS, day(2)).refs() == (("p", day(2).start_ms),)
    assert ReadyWait("p", DAYS, day(0)).refs() == (("p", T0),)
    assert waited(2, 9, replace(DAYS, follows=False)).done
