"""Questions to servers, all at once, each with a deadline: one that hangs is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class Answer(Generic[T]):
    """`value` or `error`, once it is `done`; `since_s` is when it began (monotonic)."""

    value: T | None = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)
    since_s: float = 0.0


def ask(questions: Mapping[str, Callable[[], T]], seconds: float, at_once: int = 16) -> dict[str, Answer[T]]:
    """Each gets `seconds` from its own beginning, all together three times as long. Raises nothing of theirs.

    In daemon threads: a call that never returns does not keep the process alive."""
    answers = {name: Answer[T]() for name in questions}
    free, ends = threading.Semaphore(at_once), time.monotonic() + 3 * seconds

    def run(name: str, question: Callable[[], T]) -> None:
        answer = answers[name]
        try:
            answer.value = question()
        except BaseException as e:
            answer.error = e
        finally:
            answer.done.set()
            free.release()

    for name, question in questions.items():
        if not free.acquire(timeout=max(0.0, ends - time.monotonic())):
            break  # every place is held by one that hangs
        answers[name].since_s = time.monotonic()
        threading.Thread(target=run, args=(name, question), daemon=True, name=f"ask {name}").start()
    for answer in answers.values():
        until = min(ends, (answer.since_s or time.monotonic()) + seconds)
        answer.done.wait(max(0.0, until - time.monotonic()))
    return answers
