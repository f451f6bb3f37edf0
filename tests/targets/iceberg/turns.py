"""Workers that take turns by a seed: before each call of a port the worker at hand may have to wait for others."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tests.hooks import Died
from tidegate.core.base.errors import CatalogueUnsure, TidegateError

CHANGES = frozenset({"commit"})
"""Whose answers may be lost, and which may be executed late or never."""


class Turns:
    """One worker at a time. `told` says who did what, in order; `trouble`, what should not have ended a worker."""

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)
        self.told: list[str] = []
        self.trouble: list[str] = []
        self._workers: list[_Worker] = []
        self._late: list[Callable[[], None]] = []

    def wrap(self, name: str, port: Any) -> Any:
        """For `World.wrap`."""
        return _Port(self, name, port) if name in ("iceberg", "windows", "reopenings", "batches") else port

    def run(self, tasks: Sequence[Sequence[tuple[str, Callable[[], object]]]]) -> None:
        """Each worker does its tasks, one after the other; then requests that are still on their way come."""
        self._workers = [_Worker(self, f"w{n}", mine) for n, mine in enumerate(tasks)]
        while living := [w for w in self._workers if not w.over]:
            self._rng.choice(living).go_on()
            if self._late and self._rng.random() < 0.05:
                self._late.pop(self._rng.randrange(len(self._late)))()
        while self._late:
            self._late.pop()()

    def at_call(self, port: str, method: str, call: Callable[[], Any]) -> Any:
        worker = threading.current_thread()
        if not isinstance(worker, _Worker):
            return call()
        worker.pause()
        self.told.append(f"{worker.name} {port}.{method}")
        chance = self._rng.random()
        if method not in CHANGES or chance > 0.25:
            return call()
        if chance < 0.05:
            self.told.append("... dies before it")
            raise Died
        if chance < 0.1:
            call()
            self.told.append("... dies after it")
            raise Died
        if chance < 0.15:
            self.told.append("... will be executed late")
            self._late.append(lambda: self._executed(call))
        elif chance < 0.2:
            call()
            self.told.append("... answer lost")
        else:
            self.told.append("... request lost")
        raise CatalogueUnsure("no answer")

    def _executed(self, call: Callable[[], Any]) -> None:
        try:
            call()
            self.told.append("a late request is executed")
        except TidegateError as e:
            self.told.append(f"a late request is refused: {type(e).__name__}")


class _Worker(threading.Thread):
    def __init__(self, turns: Turns, name: str, tasks: Sequence[tuple[str, Callable[[], object]]]) -> None:
        super().__init__(name=name, daemon=True)
        self._turns, self._tasks = turns, tasks
        self._mine, self._theirs = threading.Event(), threading.Event()
        self.over = False

    def go_on(self) -> None:
        """Until its next call of a port, or its end."""
        if self.ident is None:
            self.start()
        self._theirs.clear()
        self._mine.set()
        assert self._theirs.wait(120), f"{self.name} hangs"

    def pause(self) -> None:
        self._mine.clear()
        self._theirs.set()
        assert self._mine.wait(120)

    def run(self) -> None:
        self._mine.wait(120)
        for what, task in self._tasks:
            self._turns.told.append(f"{self.name}: {what}")
            try:
                task()
                self._turns.told.append(f"{self.name}: done")
            except Died:
                self._turns.told.append(f"{self.name}: died")
            except TidegateError as e:
                self._turns.told.append(f"{self.name}: {type(e).__name__}: {e}")
                if not e.retry:
                    self._turns.trouble.append(f"{self.name}, {what}: a human would be needed: {e}")
            except BaseException as e:
                self._turns.trouble.append(f"{self.name}, {what}: {type(e).__name__}: {e}")
        self.over = True
        self._theirs.set()


class _Port:
    def __init__(self, turns: Turns, name: str, port: Any) -> None:
        self._turns, self._name, self._port = turns, name, port

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._port, method)
        if not callable(found):
            return found
        return lambda *args, **options: self._turns.at_call(self._name, method, lambda: found(*args, **options))
