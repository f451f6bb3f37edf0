"""What another system's count means for a window: every verdict, and what follows from it by policy and time."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import Decimal

import pytest

from tidegate.core.base.plain import dumps, loads
from tidegate.core.completeness.rules import (
    COMPLETE,
    HOLD,
    LARGEST_COUNT,
    NAMED_PARAMETER,
    OVER,
    OVER_PATIENCE_MS,
    PUBLISH,
    SHORT,
    UNKNOWN,
    WARN,
    Held,
    compare,
    count_of,
    counted_kinds,
    due,
    held,
    longest_wait_ms,
    parameters,
    weighed,
)
from tidegate.core.spec.pipeline import COUNT_PARAMETERS, Completeness
from tidegate.core.window.answer import Answer, Comparison
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey

HOUR = 3_600_000
SINCE = 1_357_362_000_000  # 2013-01-05T05:00:00Z
WAIT = Completeness(source="topic", conn_id="kafka", topic="orders-audit", poll_ms=300_000)
PATIENT = replace(WAIT, patience_ms=HOUR)
LOOSE = replace(WAIT, tolerance=0.001)
OURS, THEIRS = 1_204_000, 1_204_331


def answer(rows: int = OURS, expected: int | None = THEIRS, problem: str | None = None, **other: object) -> Answer:
    return replace(
        Answer(
            source="orders-audit", rows=rows, expected=expected, problem=problem, asked_ms=SINCE + 1, since_ms=SINCE
        ),
        **other,
    )  # type: ignore[arg-type]


def judged(settings: Completeness, given: Answer | None, now_ms: int = SINCE) -> tuple[str, str, int | None, str]:
    found = compare(settings, given, now_ms)
    return found.verdict, found.action, found.until_ms, found.text


def test_complete() -> None:
    given = answer(THEIRS)
    assert compare(WAIT, given, SINCE) == Comparison(
        verdict=COMPLETE,
        action=PUBLISH,
        text="complete: 1,204,331 of 1,204,331 by orders-audit",
        source="orders-audit",
        rows=THEIRS,
        expected=THEIRS,
        asked_ms=SINCE + 1,
    )


def test_an_empty_hour_is_complete() -> None:
    assert judged(WAIT, answer(0, 0)) == (COMPLETE, PUBLISH, None, "complete: 0 of 0 by orders-audit")


SHORT_WORDS = "short: 1,204,000 of 1,204,331 by orders-audit (331 missing, 0.03 %)"


@pytest.mark.parametrize(
    ("settings", "now_ms", "expected"),
    [
        (
            WAIT,
            SINCE + 10**12,
            (SHORT, HOLD, None, f"{SHORT_WORDS}; waits until it is complete or somebody accepts it"),
        ),
        (PATIENT, SINCE, (SHORT, HOLD, SINCE + HOUR, f"{SHORT_WORDS}; waits until 2013-01-05T06:00Z")),
        (PATIENT, SINCE + HOUR - 1, (SHORT, HOLD, SINCE + HOUR, f"{SHORT_WORDS}; waits until 2013-01-05T06:00Z")),
        (PATIENT, SINCE + HOUR, (SHORT, WARN, None, f"{SHORT_WORDS}; published with a warning after 60 min")),
        (
            replace(WAIT, patience_ms=0),
            SINCE,
            (SHORT, WARN, None, f"{SHORT_WORDS}; published with a warning after 0 s"),
        ),
        (replace(WAIT, policy="warn"), SINCE, (SHORT, WARN, None, f"{SHORT_WORDS}; published with a warning")),
    ],
)
def test_short(settings: Completeness, now_ms: int, expected: tuple[str, str, int | None, str]) -> None:
    assert judged(settings, answer(), now_ms) == expected


OVER_WORDS = "over: 1,204,331 of 1,204,000 by orders-audit (331 too many, 0.03 %)"


@pytest.mark.parametrize(
    ("settings", "now_ms", "expected"),
    [
        # never a wait for ever: another count may come, but duplicates do not go away
        (WAIT, SINCE, (OVER, HOLD, SINCE + HOUR, f"{OVER_WORDS}; waits until 2013-01-05T06:00Z")),
        (WAIT, SINCE + HOUR, (OVER, WARN, None, f"{OVER_WORDS}; published with a warning after 60 min")),
        (replace(WAIT, patience_ms=9 * HOUR), SINCE + HOUR, (OVER, WARN, None, None)),
        (replace(WAIT, patience_ms=60_000), SINCE + 59_999, (OVER, HOLD, SINCE + 60_000, None)),
        (replace(WAIT, patience_ms=60_000), SINCE + 60_000, (OVER, WARN, None, None)),
        (replace(WAIT, policy="warn"), SINCE, (OVER, WARN, None, f"{OVER_WORDS}; published with a warning")),
    ],
)
def test_over(settings: Completeness, now_ms: int, expected: tuple[str, str, int | None, str | None]) -> None:
    found = judged(settings, answer(THEIRS, OURS), now_ms)
    assert found[:3] == expected[:3]
    assert expected[3] in (None, found[3])


@pytest.mark.parametrize(
    ("settings", "now_ms", "expected"),
    [
        (WAIT, SINCE + 10**12, (UNKNOWN, HOLD, None)),
        (PATIENT, SINCE + HOUR - 1, (UNKNOWN, HOLD, SINCE + HOUR)),
        (PATIENT, SINCE + HOUR, (UNKNOWN, WARN, None)),
        (replace(WAIT, policy="warn"), SINCE, (UNKNOWN, WARN, None)),
    ],
)
def test_unknown_is_never_complete(settings: Completeness, now_ms: int, expected: tuple[str, str, int | None]) -> None:
    for given in (answer(0, None), answer(0, None, "no answer")):
        assert judged(settings, given, now_ms)[:3] == expected


def test_why_it_is_unknown() -> None:
    assert judged(replace(WAIT, policy="warn"), answer(5, None))[3] == (
        "unknown: orders-audit: it has no count for this window yet; published with a warning"
    )
    assert judged(WAIT, answer(5, None, "HTTP 503"))[3] == (
        "unknown: orders-audit: HTTP 503; waits until it is complete or somebody accepts it"
    )


def test_who_it_is_is_said_once() -> None:
    assert judged(WAIT, answer(5, None, "orders-audit partition 0 offset 1: not JSON"))[3].startswith(
        "unknown: orders-audit partition 0 offset 1: not JSON; waits"
    )


def test_nobody_was_asked() -> None:
    assert compare(PATIENT, None, SINCE) == Comparison(
        verdict=UNKNOWN,
        action=HOLD,
        text="unknown: orders-audit has not been asked; waits for an answer",
        source="orders-audit",
    )
    assert judged(replace(WAIT, policy="warn"), None) == (
        UNKNOWN, WARN, None, "unknown: orders-audit has not been asked; published with a warning",
    )  # fmt: skip


def test_an_answer_of_another_system_is_none() -> None:
    """The spec names another one since: what the old one said decides nothing, unless it was accepted."""
    other = answer(THEIRS, source="old-audit")
    assert judged(WAIT, other)[:2] == (UNKNOWN, HOLD)
    found = compare(WAIT, replace(other, rows=1, accepted="fine"), SINCE)
    assert (found.action, found.source) == (WARN, "old-audit")


@pytest.mark.parametrize("settings", [WAIT, PATIENT, replace(WAIT, policy="warn")])
@pytest.mark.parametrize("given", [answer(), answer(THEIRS, OURS), answer(3, None, "away")])
def test_what_is_accepted_is_published_with_its_reason(settings: Completeness, given: Answer) -> None:
    found = compare(settings, replace(given, accepted="lost at the source"), SINCE)
    assert (found.action, found.until_ms, found.accepted) == (WARN, None, "lost at the source")
    assert found.text.endswith("; accepted: lost at the source")
    assert (found.rows, found.expected, found.asked_ms) == (given.rows, given.expected, SINCE + 1)


@pytest.mark.parametrize(
    ("tolerance", "rows", "expected", "verdict"),
    [
        (0.01, 99, 100, COMPLETE),
        (0.01, 98, 100, SHORT),
        (0.01, 101, 100, COMPLETE),
        (0.01, 102, 100, OVER),
        (0.29, 71, 100, COMPLETE),  # 0.29 * 100 is less than 29 in floating point
        (0.29, 129, 100, COMPLETE),
        (0.29, 70, 100, SHORT),
        (0.5, 0, 1, SHORT),
        (1.0, 0, 100, COMPLETE),
        (1.0, 1, 0, OVER),  # no share of nothing
        (0.0, 10**15 - 1, 10**15, SHORT),
    ],
)
def test_tolerance(tolerance: float, rows: int, expected: int, verdict: str) -> None:
    assert judged(replace(WAIT, tolerance=tolerance), answer(rows, expected))[0] == verdict


def test_what_is_within_the_tolerance_is_said() -> None:
    assert judged(LOOSE, answer()) == (
        COMPLETE, PUBLISH, None,
        "complete: 1,204,000 of 1,204,331 by orders-audit (331 missing, 0.03 %, within the tolerance)",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "expected", "words"),
    [
        (9_999, 10_000, "(1 missing, 0.01 %)"),
        (99_999, 100_000, "(1 missing, below 0.01 %)"),
        (0, 7, "(7 missing, 100.00 %)"),
        (3, 0, "over: 3 of 0 by orders-audit (3 too many);"),
        (300, 100, "(200 too many, 200.00 %)"),
    ],
)
def test_shares(rows: int, expected: int, words: str) -> None:
    assert words in judged(WAIT, answer(rows, expected))[3]


@pytest.mark.parametrize(
    ("given", "now_ms", "expected"),
    [
        (None, 0, True),
        (answer(asked_ms=1000), 1000 + WAIT.poll_ms - 1, False),
        (answer(asked_ms=1000), 1000 + WAIT.poll_ms, True),
        (answer(asked_ms=10**7), 10**7 - WAIT.poll_ms, True),  # a clock was ahead: it must not silence the others
        (answer(asked_ms=10**7), 10**7 - WAIT.poll_ms + 1, False),
        (answer(THEIRS, OURS, asked_ms=0), WAIT.poll_ms, True),
        (answer(0, None, asked_ms=0), WAIT.poll_ms, True),
        (answer(THEIRS, asked_ms=0), 10**12, False),  # complete stays complete
        (answer(accepted="fine", asked_ms=0), 10**12, False),
        (answer(THEIRS, asked_ms=0, source="old-audit"), 1, True),
        (answer(accepted="fine", asked_ms=0, source="old-audit"), 10**12, False),
    ],
)
def test_when_to_ask(given: Answer | None, now_ms: int, expected: bool) -> None:
    assert due(WAIT, given, given.rows if given else 0, now_ms) is expected


def test_what_is_within_the_tolerance_is_not_asked_again() -> None:
    assert due(WAIT, answer(), OURS, SINCE + HOUR)
    assert not due(LOOSE, answer(), OURS, SINCE + HOUR)


def test_what_is_complete_is_asked_again_when_more_lands() -> None:
    """A watermark can fall back, by a partition that is added: then either count grows after it was complete."""
    given = answer(THEIRS, asked_ms=1000)
    assert due(WAIT, given, THEIRS + 1, 1000 + WAIT.poll_ms)
    assert not due(WAIT, given, THEIRS + 1, 1000 + WAIT.poll_ms - 1)
    assert not due(WAIT, replace(given, accepted="fine"), THEIRS + 1, 1000 + WAIT.poll_ms)


def test_which_rows_count() -> None:
    assert counted_kinds(WAIT) == ("data",)
    assert counted_kinds(replace(WAIT, late_too=True)) == ("data", "late")


def test_how_long_it_can_take() -> None:
    assert longest_wait_ms(replace(WAIT, policy="warn", patience_ms=9 * HOUR)) == 0
    assert longest_wait_ms(WAIT) == OVER_PATIENCE_MS == HOUR
    assert longest_wait_ms(replace(WAIT, patience_ms=9 * HOUR)) == 9 * HOUR
    assert longest_wait_ms(replace(WAIT, patience_ms=0)) == 0


CERTIFICATE = Certificate(
    pipeline="orders",
    window=WindowKey(0, HOUR),
    ready=True,
    reason="watermark passed",
    decided_ms=7,
    batch_id=1,
    watermark_ms=2,
    partitions=(),
    blockers=(),
)


def test_windows_that_a_count_holds_come_oldest_first() -> None:
    later = replace(answer(), since_ms=SINCE + 9)
    answers = {3 * HOUR: later, HOUR: answer(), 0: answer(THEIRS), 2 * HOUR: answer(accepted="fine")}
    assert held(WAIT, answers, SINCE) == (
        Held(HOUR, SINCE, compare(WAIT, answer(), SINCE)), Held(3 * HOUR, SINCE + 9, compare(WAIT, later, SINCE)),
    )  # fmt: skip
    assert [one.window_ms for one in held(PATIENT, answers, SINCE + HOUR)] == [3 * HOUR], "patience is over"
    assert held(None, answers, SINCE) == held(replace(WAIT, policy="warn"), answers, SINCE) == ()


def test_a_certificate_that_is_held() -> None:
    comparison = compare(PATIENT, answer(), SINCE)
    found = weighed(CERTIFICATE, comparison)
    assert found == replace(CERTIFICATE, ready=False, reason=comparison.text, completeness=comparison)
    assert loads(Certificate, dumps(found)) == found


@pytest.mark.parametrize("given", [answer(THEIRS), answer(accepted="fine")])
def test_a_certificate_that_is_let_through(given: Answer) -> None:
    comparison = compare(PATIENT, given, SINCE)
    reason = f"watermark passed; {comparison.text}"
    assert weighed(CERTIFICATE, comparison) == replace(CERTIFICATE, reason=reason, completeness=comparison)


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (None, None),
        (0, 0),
        (12, 12),
        (12.0, 12),
        (float(2**53), 2**53),
        (Decimal("12"), 12),
        (Decimal("12.000"), 12),
        (Decimal("1E+3"), 1000),
        (LARGEST_COUNT, LARGEST_COUNT),
        (Decimal(LARGEST_COUNT), LARGEST_COUNT),
    ],
)
def test_counts(value: object, count: int | None) -> None:
    found = count_of(value)
    assert found == count
    assert type(found) is type(count)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("12", "'12' is not a number"),
        (True, "True is not a number"),
        (b"12", "b'12' is not a number"),
        ([1], "[1] is not a number"),
        ({"count": 1}, "{'count': 1} is not a number"),
        ("x" * 99, f"'{'x' * 39}... is not a number"),
        ("y" * 39, f"'{'y' * 39}... is not a number"),
        ("y" * 38, f"'{'y' * 38}' is not a number"),
        (1.5, "1.5 is not a whole number"),
        (Decimal("0.5"), "0.5 is not a whole number"),
        (math.nan, "nan is not a whole number"),
        (math.inf, "inf is not a whole number"),
        (Decimal("NaN"), "NaN is not a whole number"),
        (Decimal("-Infinity"), "-Infinity is not a whole number"),
        (Decimal("1e999999999"), "1E+999999999 is not a count of rows"),  # not made an integer
        (-0.5, "-0.5 is not a count of rows"),
        (1e300, "1e+300 is not a count of rows"),
        (float(2**53) + 2, "9007199254740994.0 is not a whole number"),
        (-1, "-1 is not a count of rows"),
        (-1.0, "-1.0 is not a count of rows"),
        (LARGEST_COUNT + 1, "9223372036854775808 is not a count of rows"),
    ],
)
def test_what_is_no_count(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        count_of(value)


def test_a_windows_bounds() -> None:
    found = parameters(WindowKey(SINCE, SINCE + HOUR))
    assert found == {
        "start": "2013-01-05T05:00:00Z",
        "end": "2013-01-05T06:00:00Z",
        "start_ms": SINCE,
        "end_ms": SINCE + HOUR,
    }
    assert tuple(found) == COUNT_PARAMETERS


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("select n from t where at >= :start and at < :end", ["start", "end"]),
        ("select n::bigint from t where ms=:start_ms", ["start_ms"]),
        ("select ':' || n, '12:30' from t", []),
        (r"select '\:start' from t", []),
        ("where a = :what;", ["what"]),
    ],
)
def test_named_parameters(query: str, names: list[str]) -> None:
    assert NAMED_PARAMETER.findall(query) == names


def test_what_people_know_it_by() -> None:
    assert WAIT.source_name == "orders-audit"
    assert Completeness(source="http", conn_id="counts_http", path="/x").source_name == "counts_http"
