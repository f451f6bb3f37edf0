"""Questions to servers: however many there are, a server that hangs costs its time once."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from tidegate.cli.deadlines import Away, ask
from tidegate.core.base.errors import DataLoss, SourceUnavailable


def test_a_server_that_hangs_is_not_asked_a_thousand_times() -> None:
    never = threading.Event()
    questions = {f"dead {n}": never.wait for n in range(1000)} | {f"well {n}": partial(int, n) for n in range(1000)}
    servers = {name: name.split()[0] for name in questions}
    told: list[int] = []
    answers = ask(questions, 1.0, servers, told.append)
    never.set()
    for thread in threading.enumerate():
        if thread.name.startswith("ask dead"):
            thread.join()  # those that hung have an answer now, which comes too late
    dead = [a for name, a in answers.items() if name.startswith("dead")]
    assert all(answers[f"well {n}"].value == n for n in range(1000))
    assert 1 <= sum(bool(a.since_s) for a in dead) <= 16
    assert not any(a.value for a in dead)
    assert told == list(range(2000))


def test_many_that_are_answered_slowly_are_all_asked() -> None:
    """All together they take longer than one may."""
    questions = {str(n): partial(time.sleep, 0.05) for n in range(64)}
    answers = ask(questions, 2, dict.fromkeys(questions, "one server"), at_once=2)
    assert all(a.done.is_set() and a.error is None for a in answers.values())


def test_what_fails_is_the_answer() -> None:
    assert isinstance(ask({"bad": partial(int, "x")}, 5)["bad"].error, ValueError)


def test_a_server_that_gave_no_answer_is_asked_once() -> None:
    away, asked = Away(), list[str]()

    def silent(name: str) -> str:
        asked.append(name)
        raise SourceUnavailable(f"{name}: no broker answers")

    for server, said in (("one", "one: no"), ("one", "one: no"), ("two", "two: no")):
        with pytest.raises(SourceUnavailable, match=said):
            away.ask(server, lambda server=server: silent(server))
    assert asked == ["one", "two"]
    assert away.ask("three", lambda: "here") == "here"
    with pytest.raises(DataLoss):
        away.ask("three", lambda: _raise(DataLoss("a topic's own trouble")))
    assert away.ask("three", lambda: "still asked") == "still asked"


def test_of_several_that_wait_for_one_server_all_say_what_the_first_met() -> None:
    away = Away()

    def second() -> str:
        with pytest.raises(SourceUnavailable, match="first"):
            away.ask("one", lambda: _raise(SourceUnavailable("first")))
        raise SourceUnavailable("second")

    with pytest.raises(SourceUnavailable, match="first"):
        away.ask("one", second)


def _raise(error: Exception) -> str:
    raise error
