"""Questions to servers, many at once, each with a deadline: a server that hangs is not asked again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tidegate.core.base.errors import SourceUnavailable

T = TypeVar("T")


@dataclass
class Answer(Generic[T]):
    """`value` or `error`, once it is `done`; `since_s` is when it began (monotonic), 0 for an unasked question."""

    value: T | None = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)
    since_s: float = 0.0

    def hangs(self, seconds: float) -> bool:
        return bool(self.since_s) and not self.done.is_set() and time.monotonic() - self.since_s >= seconds


class Away:
    """Kafka connections that gave no answer: each costs its time-out once, for any number of questions."""

    def __init__(self) -> None:
        self._errors: dict[object, SourceUnavailable] = {}

    def ask(self, server: object, question: Callable[[], T]) -> T:
        """The answer. Raises the question's error, or at once the earlier error of a silent server."""
        if server not in self._errors:
            try:
                return question()
            except SourceUnavailable as e:
                if self._errors.setdefault(server, e) is e:
                    raise
        raise self._errors[server]  # the first one's, also for those asked at the same time


def ask(
    questions: Mapping[str, Callable[[], T]],
    seconds: float,
    servers: Mapping[str, str] | None = None,
    say: Callable[[int], None] = lambda begun: None,
    at_once: int = 16,
) -> dict[str, Answer[T]]:
    """Answers by question; each question has `seconds` from its own beginning, and its error stays in its answer.

    `servers`: question -> the server it is for; once one hangs, that server gets no more questions, so that it costs
    `seconds` at most. `say` gets the number of those begun.

    In daemon threads: a call that never returns does not keep the process alive."""
    answers = {name: Answer[T]() for name in questions}
    asked: dict[str, list[Answer[T]]] = {}
    changed = threading.Event()

    def run(name: str, question: Callable[[], T]) -> None:
        answer = answers[name]
        try:
            answer.value = question()
        except BaseException as e:
            answer.error = e
        finally:
            answer.done.set()
            changed.set()

    running: list[Answer[T]] = []
    for number, (name, question) in enumerate(questions.items()):
        say(number)
        while True:
            changed.clear()
            running = [a for a in running if not a.done.is_set() and not a.hangs(seconds)]
            if len(running) < at_once:
                break
            changed.wait(0.1)
        mine = asked.setdefault((servers or {}).get(name, name), [])
        if any(a.hangs(seconds) for a in mine):
            continue
        mine[:] = [a for a in mine if not a.done.is_set()]
        answers[name].since_s = time.monotonic()
        mine.append(answers[name])
        running.append(answers[name])
        threading.Thread(target=run, args=(name, question), daemon=True, name=f"ask {name}").start()
    for answer in answers.values():
        if answer.since_s:
            answer.done.wait(max(0.0, answer.since_s + seconds - time.monotonic()))
    # an answer that comes after this moment is ignored everywhere
    return {name: a if a.done.is_set() else Answer(since_s=a.since_s) for name, a in answers.items()}
