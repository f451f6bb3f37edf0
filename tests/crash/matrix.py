"""The fault-free life as a reference, and one case compared with it: a fault, tasks run again, then the audit."""

from __future__ import annotations

import itertools
import os
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.crash.cases import ways
from tests.crash.faults import OVERTAKEN, Call, Faults
from tests.crash.kept import InProcess
from tests.crash.life import HIVE, STEPS, beginning
from tests.crash.scenario import MAINTAIN, Snapshot, calm, happen, run_tasks, state
from tests.crash.sites import without_tries
from tests.world import World
from tidegate.core.target.paths import FAILURE
from tidegate.workflow.audit.audit import audit

ROOM_BYTES = 512 * 1024 * 1024
AGE_MS = 40 * 86_400_000
"""By then a cleaner may take whatever is useless."""
RECORDS = re.compile(r"hwm/|quarantine/|(?:late/|dirty/)?metadata/")
BATCHES = 100
"""More than the life has."""
LOOKED_THROUGH = 0.2
"""Of the cases where nothing moves: what lies there when all that may go has gone. It takes as long as the case."""
SHARE = 0.01
"""Of the cases, in `make test`, beside those that it always takes."""


class Reference:
    """A snapshot before each step's tasks, the state after them, the changing calls in them."""

    def __init__(self, folder: Path, target: str = HIVE) -> None:
        self.folder = folder
        self.world_folder = folder / "world"
        self.world_folder.mkdir()
        self.before: list[Snapshot] = []
        self.calls: list[list[Call]] = []
        self.after: list[dict[str, Any]] = []
        self._left: dict[int, Counter[str]] = {}
        faults = Faults()
        world = beginning(self.world_folder, faults.wrap, target)
        for number, step in enumerate(STEPS):
            happen(world, step)
            self.before.append(Snapshot.of(world, folder / f"before-{number}", linked=True))
            start = len(faults.calls)
            run_tasks(world, step, faults)
            self.calls.append(faults.calls[start:])
            self.after.append(state(world))
            world.said.clear()

    def left(self, number: int) -> Counter[str]:
        """What stays in storage for good if the life ends after this step."""
        if number not in self._left:
            world = self.restore(number, Faults())
            try:
                run_tasks(world, STEPS[number], Faults())
                self._left[number] = left(world)
            finally:
                world.close()
        return self._left[number]

    def restore(self, number: int, faults: Faults) -> World:
        return self.before[number].restore(self.world_folder, faults)


@dataclass(frozen=True)
class Case:
    """One fault in one step."""

    step: int
    at: int
    kind: str


def drawn(calls: list[list[Call]], step: int, kind: str) -> list[Case]:
    """Cases of a step's calls: one of the whole life for each method that fails in this way in this run, and a share of
    the others, which ones TIDEGATE_TEST_SEED says; all of them in `make test-faults`."""
    found = [Case(step, at, kind) for at, call in enumerate(calls[step]) if _can_be(call, kind)]
    if os.environ.get("TIDEGATE_FAULTS") == "all":
        return found
    seed, first = os.environ["TIDEGATE_TEST_SEED"], _one_of_each_method(calls, kind)
    return [
        one
        for one in found
        if (one.step, one.at) in first or random.Random(f"{seed}:{one.step}:{one.at}:{one.kind}").random() < SHARE
    ]


def _one_of_each_method(calls: list[list[Call]], kind: str) -> set[tuple[int, int]]:
    """(step, number of the call in it)"""
    by_method: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for step, made in enumerate(calls):
        for at, call in enumerate(made):
            if _can_be(call, kind):
                by_method[call.method].append((step, at))
    seed, known = os.environ["TIDEGATE_TEST_SEED"], kinds_of(calls)
    return {
        random.Random(f"{seed}:{method}:{kind}").choice(found)
        for method, found in by_method.items()
        if kind in ways(method, known[method])
    }


def kinds_of(calls: list[list[Call]]) -> dict[str, set[str]]:
    """In which ways each method of the life can fail or be overtaken."""
    known: dict[str, set[str]] = defaultdict(lambda: {*OVERTAKEN})
    for call in itertools.chain.from_iterable(calls):
        known[call.method].update(call.kinds())
    return known


def _can_be(call: Call, kind: str) -> bool:
    return kind in OVERTAKEN or kind in call.kinds()


def cases(reference: Reference) -> list[Case]:
    return [
        Case(step, at, kind)
        for step, calls in enumerate(reference.calls)
        for at, call in enumerate(calls)
        for kind in call.kinds()
    ]


def run_case(reference: Reference, case: Case) -> str | None:
    """What went wrong; None if the fault fired and nothing of it can be seen."""
    site = reference.calls[case.step][case.at].site
    wanted = reference.left(case.step) if _looks_through(reference, case) else None
    faults = Faults.one(case.at, case.kind)
    world = reference.restore(case.step, faults)
    try:
        run_tasks(world, STEPS[case.step], faults)
        if faults.fired != [site]:
            return f"the fault did not fire, but {faults.fired}"
        wrong = difference(world, reference.after[case.step])
        if wrong is None and wanted is not None:
            more = left(world) - wanted
            wrong = f"left for good: {sorted(more)}" if more else None
        return wrong
    except Exception as e:
        return f"{type(e).__name__}: {e}\nsaid: {world.said[-6:]}"
    finally:
        faults.arrive()
        world.close()


def _looks_through(reference: Reference, case: Case) -> bool:
    if reference.before[0].store.renames:
        return False
    return random.Random(f"{os.environ['TIDEGATE_TEST_SEED']}:{case}").random() < LOOKED_THROUGH


def difference(world: World, wanted: dict[str, Any]) -> str | None:
    """Between what can be seen and what should be; the deep audit's problems too."""
    found = state(world)
    wrong = [f"{k}: {found[k]}, should be {wanted[k]}" for k in wanted if found[k] != wanted[k]]
    wrong += problems(world)
    return "\n".join(wrong) or None


def problems(world: World) -> list[str]:
    """What the deep audit says; footers are read in this process."""
    with calm(world):
        ctx = world.context()
        report = audit(ctx, ctx.ledger.reads, InProcess(world.store))  # type: ignore[attr-defined]
        return [f"audit: {p}" for p in report.problems] or ([] if report.balanced else ["audit: not balanced"])


def left(world: World) -> Counter[str]:
    """Names of the files that lie in the store once a cleaner has had all its time, and how many have each.

    Records and the tables' own files stay for good, as many as the tries were: they count once. What a batch wrote may
    stay as long as one of its hours is open: it does not count."""
    with calm(world):
        for _ in range(2):
            world.clock.advance(AGE_MS)
            MAINTAIN(world)
        told = world.context().ledger.cleaning.batches("readings", range(1, BATCHES))
    waiting = tuple(f"tmp/{number}.*/data/" for number, facts in told.items() if facts.cleaned_ms is None)
    location = world.pipeline.sink.location
    names = Counter(without_tries(f"{location}/{f.path}") for f in world.store.list_files(location) or ())
    for name in list(names):
        if name.startswith(waiting) or name.endswith(f"/{FAILURE}"):  # the last words of a try stay as its receipt does
            del names[name]
        elif RECORDS.match(name):
            names[name] = 1
    return names


@contextmanager
def quick() -> Iterator[None]:
    """No power cut is played here: nothing is synced."""
    with mock.patch.object(os, "fsync"):
        yield


def in_memory() -> str | None:
    """A folder on a filesystem in memory, if there is one with room."""
    folder = "/dev/shm"
    if not os.access(folder, os.W_OK):
        return None
    found = os.statvfs(folder)
    return folder if found.f_bavail * found.f_frsize > ROOM_BYTES else None


@contextmanager
def a_reference(target: str = HIVE) -> Iterator[Reference]:
    with tempfile.TemporaryDirectory(prefix="tidegate-crash-", dir=in_memory()) as folder, quick():
        yield Reference(Path(folder), target)
