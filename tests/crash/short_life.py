"""A life in a few steps, on a world of a test's own, whose every changing call fails in every way.

A test says by a `Play` what its world is, what happens in it, and what must be so after each step. The life is lived
once without faults; then each case goes on from a copy of the world as it was before the step, and has one fault in it.
"""

from __future__ import annotations

import copy
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar
from unittest import mock

from tests.crash.cases import unhealed
from tests.crash.faults import Call, Faults
from tests.crash.scenario import calm, until_done
from tests.world import World
from tidegate.core.base.errors import TidegateError
from tidegate.spec import fingerprint

W = TypeVar("W")


def nothing(world: Any) -> None:
    """Happens."""


@dataclass(frozen=True)
class Step(Generic[W]):
    """`happens`: in a world without faults. `tasks`: each is run until it comes to its end."""

    happens: Callable[[W], object]
    tasks: tuple[Callable[[W], object], ...]


class Play(ABC, Generic[W]):
    """What a short life is of."""

    steps: tuple[Step[W], ...]
    tries = 8
    """Of a task, until a person is asked why."""
    settles = True
    """Whether a step without faults leaves nothing to `ends`; else the life is looked at when it has ended."""

    @abstractmethod
    def opened(self, folder: Path, faults: Faults, kept: Any) -> W:
        """A world in this folder, whose ports are wrapped by `faults`. `kept`: what `keeps` gave when the world was
        copied; None: it begins."""

    def keeps(self, world: W) -> Any:
        """What a copy of its folder does not have."""
        return ()

    @abstractmethod
    def sound(self, world: W, step: int) -> None:
        """Raises AssertionError unless all is as it should be once the step's tasks have ended."""

    def of(self, world: W) -> World:
        """The world itself, where a test's has it within."""
        assert isinstance(world, World)
        return world

    def waits(self, world: W, faults: Faults) -> None:
        """Between two tries of a task."""

    def meanwhile(self, world: W, step: int) -> None:
        """After each task of a step with a fault."""

    def ends(self, world: W, step: int) -> None:
        """After the step, when no call fails any more: what a schedule would do next."""

    def calm(self, world: W) -> None:
        """No further call is a site."""
        self.of(world).wrap = lambda name, port: port

    def rival(self, world: W, step: int) -> None:
        """Another process, in the middle of the first one's try: each task once."""
        inner = self.of(world)
        mine, inner._ledgers = inner._ledgers, []  # the first one's stays open
        with calm(inner):
            for task in self.steps[step].tasks:
                try:
                    task(world)
                except TidegateError as e:
                    if not e.retry:
                        raise AssertionError(f"the other one would need a human: {e}") from e
        inner._ledgers = mine


class ShortLife(Generic[W]):
    """The fault-free life: `calls` of each step, and a folder for each step as it is before its tasks. Paths are
    absolute, so the world's own folder is used again."""

    def __init__(self, play: Play[W], folder: Path) -> None:
        self.play, self._folder = play, folder
        self.calls: list[list[Call]] = []
        self._kept: list[Any] = []
        faults = Faults()
        with mock.patch.object(os, "fsync"):
            world = self._opened(faults, None)
            for number, step in enumerate(play.steps):
                with calm(play.of(world)):
                    step.happens(world)
                shutil.copytree(self._here, folder / f"before-{number}")
                self._kept.append(copy.deepcopy(play.keeps(world)))
                start = len(faults.calls)
                for task in step.tasks:
                    task(world)
                self.calls.append(faults.calls[start:])
                if play.settles or number == len(play.steps) - 1:
                    play.sound(world, number)
                play.of(world).close()

    @property
    def methods(self) -> set[str]:
        """Of the calls that it meets."""
        return {call.method for calls in self.calls for call in calls}

    def unhealed(self, kind: str, of: Callable[[Call], bool] = lambda call: True) -> list[str]:
        """What was wrong after lives in which one call failed in this way. `of`: which calls."""
        return unhealed(self.calls, kind, self._lived, of)

    @property
    def _here(self) -> Path:
        return self._folder / "world"

    def _opened(self, faults: Faults, kept: Any) -> W:
        ledger = self._here / "ledger.db"
        known = ledger.read_bytes() if ledger.exists() else None
        self._here.mkdir(exist_ok=True)
        world = self.play.opened(self._here, faults, kept)
        if known is not None:
            ledger.write_bytes(known)
            inner = self.play.of(world)
            inner.registered.add(fingerprint(inner.pipeline))
        return world

    def _lived(self, step: int, at: int, kind: str) -> str | None:
        """What was wrong; None: it healed."""
        play, faults = self.play, Faults.one(at, kind)
        shutil.rmtree(self._here, ignore_errors=True)
        shutil.copytree(self._folder / f"before-{step}", self._here)
        world = self._opened(faults, copy.deepcopy(self._kept[step]))
        faults.rival = lambda _: play.rival(world, step)
        try:
            for task in play.steps[step].tasks:
                until_done(partial(task, world), faults, play.tries, lambda: play.waits(world, faults))
                play.meanwhile(world, step)
            if faults.fired != [self.calls[step][at].site]:
                return f"the fault did not fire, but {faults.fired}"
            faults.arrive()
            play.calm(world)
            play.ends(world, step)
            play.sound(world, step)
        except Exception as e:
            return f"{type(e).__name__}: {e}; said: {play.of(world).said[-6:]}"
        finally:
            faults.arrive()
            play.of(world).close()
        return None
