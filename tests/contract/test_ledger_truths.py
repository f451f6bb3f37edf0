"""What the ledger keeps of another system's answers, on SQLite and PostgreSQL: by comparison, one for each window."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.contract.ledgers import HOUR, NAME, WINDOW, landed, ledger, now, open_ledger, ready, url
from tidegate.core.base.errors import LostComparison
from tidegate.core.completeness.rules import LARGEST_COUNT
from tidegate.core.window.answer import Answer
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey
from tidegate.ledger import SqlLedger

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures

ANSWER = Answer(source="audit", rows=2, expected=3, problem=None, asked_ms=1000, since_ms=900)
NEXT = WindowKey(HOUR, 2 * HOUR)


def known(ledger: SqlLedger, window: WindowKey = WINDOW) -> tuple[int, Answer | None]:
    return ledger.truths.known(NAME, window, ("data",))


@pytest.mark.parametrize(
    "answer",
    [
        ANSWER,
        replace(ANSWER, expected=None, problem="HTTP 503: größer"),
        replace(ANSWER, expected=LARGEST_COUNT, rows=LARGEST_COUNT),
    ],
)
def test_an_answer_comes_back_as_it_was(ledger: SqlLedger, answer: Answer) -> None:
    assert known(ledger) == (0, None)
    ledger.truths.save(NAME, WINDOW, answer, None)
    assert known(ledger) == (0, answer)
    assert known(ledger, NEXT) == (0, None)


def test_an_answer_takes_the_place_of_the_one_it_was_compared_with(ledger: SqlLedger) -> None:
    newer, rival = replace(ANSWER, expected=4, asked_ms=2000), replace(ANSWER, expected=5, asked_ms=3000)
    ledger.truths.save(NAME, WINDOW, ANSWER, None)
    with pytest.raises(LostComparison):
        ledger.truths.save(NAME, WINDOW, newer, None)
    ledger.truths.save(NAME, WINDOW, newer, ANSWER)
    with pytest.raises(LostComparison):
        ledger.truths.save(NAME, WINDOW, rival, ANSWER)
    assert known(ledger)[1] == newer


def test_of_two_first_answers_one_is_stored(ledger: SqlLedger, open_ledger: Callable[[], SqlLedger]) -> None:
    answers = [replace(ANSWER, asked_ms=1000 + i) for i in range(4)]
    ledgers, lost = [open_ledger() for _ in answers], []
    start = threading.Barrier(len(answers))

    def save(one: SqlLedger, answer: Answer) -> None:
        start.wait()
        try:
            one.truths.save(NAME, WINDOW, answer, None)
        except LostComparison:
            lost.append(answer)

    threads = [threading.Thread(target=save, args=pair) for pair in zip(ledgers, answers, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lost) == len(answers) - 1
    assert {known(ledger)[1], *lost} == set(answers)


def test_our_rows_are_those_that_have_landed(ledger: SqlLedger) -> None:
    landed(ledger)
    rows = {kind: ledger.truths.known(NAME, WINDOW, kinds)[0] for kind, kinds in KINDS.items()}
    totals = ledger.windows.owed(NAME, WINDOW, [1])
    assert rows["data"] == sum(t.rows for t in totals) > 0
    assert rows["both"] == rows["data"] + rows["late"]
    assert ledger.truths.known("another", WINDOW, ("data",)) == (0, None)


KINDS = {"data": ("data",), "late": ("late",), "both": ("data", "late")}


def test_what_is_accepted_stays(ledger: SqlLedger) -> None:
    ledger.truths.save(NAME, WINDOW, ANSWER, None)
    ledger.truths.accept(NAME, WINDOW, ANSWER, "lost at the source")
    accepted = replace(ANSWER, accepted="lost at the source")
    assert known(ledger)[1] == accepted
    for old in (ANSWER, accepted):
        with pytest.raises(LostComparison):
            ledger.truths.save(NAME, WINDOW, replace(ANSWER, asked_ms=5000), old)
        with pytest.raises(LostComparison):
            ledger.truths.accept(NAME, WINDOW, old, "again")
    assert known(ledger)[1] == accepted
    (event,) = [e for e in ledger.reads.events(NAME, 50) if e.what == "count accepted"]
    assert (event.subject, event.detail["why"], event.detail["expected"]) == (
        "window 19700101T000000Z",
        "lost at the source",
        3,
    )


def test_only_what_was_shown_is_accepted(ledger: SqlLedger) -> None:
    with pytest.raises(LostComparison):
        ledger.truths.accept(NAME, WINDOW, ANSWER, "never asked")
    ledger.truths.save(NAME, WINDOW, ANSWER, None)
    with pytest.raises(LostComparison):
        ledger.truths.accept(NAME, WINDOW, replace(ANSWER, asked_ms=7), "another answer")
    assert known(ledger)[1] == ANSWER


def test_a_window_that_is_closing_is_not_accepted_any_more(ledger: SqlLedger) -> None:
    ledger.truths.save(NAME, WINDOW, ANSWER, None)
    assert ledger.reads.answers([NAME])[NAME] == {WINDOW.start_ms: ANSWER}
    ledger.windows.begin_close(NAME, WINDOW, ready)
    with pytest.raises(LostComparison, match="closed already"):
        ledger.truths.accept(NAME, WINDOW, ANSWER, "too late")
    assert ledger.reads.answers([NAME]) == {}


def test_which_windows_wait(ledger: SqlLedger) -> None:
    ledger.truths.save(NAME, NEXT, ANSWER, None)
    ledger.truths.save(NAME, WINDOW, ANSWER, None)
    ledger.truths.save("another", WINDOW, ANSWER, None)
    assert list(ledger.reads.answers([NAME])[NAME]) == [WINDOW.start_ms, NEXT.start_ms]


@pytest.mark.parametrize("stored", [None, ANSWER])
def test_the_closing_transaction_weighs_what_is_stored(ledger: SqlLedger, stored: Answer | None) -> None:
    if stored is not None:
        ledger.truths.save(NAME, WINDOW, stored, None)
    seen: list[Answer | None] = []

    def held(certificate: Certificate, answer: Answer | None) -> Certificate:
        seen.append(answer)
        return replace(certificate, ready=False)

    assert not ledger.windows.begin_close(NAME, WINDOW, ready, held).ready
    assert seen == [stored]
    assert ledger.windows.get(NAME, WINDOW).state == "OPEN"
    assert not ledger.windows.certificate(NAME, WINDOW).ready  # type: ignore[union-attr]
    assert ledger.windows.begin_close(NAME, WINDOW, ready, lambda certificate, answer: certificate).ready
    assert ledger.windows.get(NAME, WINDOW).state == "CLOSING"


def test_a_window_that_its_watermark_blocks_is_not_weighed(ledger: SqlLedger) -> None:
    blocked = replace(ready(ledger.windows.facts(NAME)), ready=False)
    ledger.windows.begin_close(NAME, WINDOW, lambda facts: blocked, lambda certificate, answer: pytest.fail("weighed"))
    assert ledger.windows.get(NAME, WINDOW).state == "OPEN"
