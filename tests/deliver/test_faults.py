"""Every changing call of a delivery's life fails in every way, or is overtaken by another whole task: in the end each
window's generation in force stands there, readers never met an older one after a newer, and the ledger says so.

`make test` takes one of each method and way, by the run's seed; `TIDEGATE_FAULTS=all` takes all.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.crash.cases import OVERTAKINGS, unhealed
from tests.crash.faults import KINDS, OF_A_DELIVERY, Call, Faults
from tests.crash.scenario import calm, until_done
from tests.deliver.lab import SHOP, Lab, Server, Staged, Transactional
from tests.world import HOUR, T0, window
from tidegate.core.base.errors import DeliveryRefused, LostComparison, TidegateError
from tidegate.core.deliver.states import SENDING
from tidegate.core.spec.pipeline import Column
from tidegate.spec import fingerprint
from tidegate.workflow.base.outcome import FAILED
from tidegate.workflow.deliver import deliver

TRIES = 8


def sends(lab: Lab) -> None:
    _well(lab.deliver())


def verifies(lab: Lab) -> None:
    _well(lab.verify(0, 1))


def sends_again(lab: Lab) -> None:
    """Once, whichever try asked for it."""
    if lab.states()[1] == "STANDING 1.1":
        _well(lab.verify(1, why="doubts"))
    sends(lab)


def skips(lab: Lab) -> None:
    with lab.context() as ctx:
        deliver.skip(ctx, SHOP, [window(0)], "not wanted")


def _well(found: list[str]) -> None:
    """A window that failed is the next try's."""
    if FAILED in found or "overtaken" in found:
        raise LostComparison(f"not all of it: {found}")


def replays(lab: Lab) -> None:
    if len(lab.pipeline.columns) == 3:
        lab.world.change_spec(columns=(*lab.pipeline.columns, Column(name="x", type="string", path="$.id")))
    lab.world.replay(0)


def loses_rows(lab: Lab) -> None:
    """In the further system, by somebody's hand."""
    lab.server.rows.pop(T0, None)


def refuses_once(lab: Lab) -> None:
    """The next change there, which no retry heals."""
    lab.world.change_spec(columns=(*lab.pipeline.columns, Column(name="y", type="string", path="$.id")))
    lab.world.replay(0)
    lab.server.refuses = True


def stops_refusing(lab: Lab) -> None:
    lab.server.refuses = False


def replays_once_more(lab: Lab) -> None:
    lab.world.change_spec(columns=(*lab.pipeline.columns, Column(name="z", type="string", path="$.id")))
    lab.world.replay(0)


Task = Callable[[Lab], object]


@dataclass(frozen=True)
class Step:
    """`happens`: in a world without faults. `tasks`: each is run until it comes to its end."""

    happens: Task
    tasks: tuple[Task, ...]


STEPS = (
    Step(lambda lab: lab.hours(2), (sends,)),
    Step(replays, (sends,)),
    Step(loses_rows, (verifies,)),
    Step(lambda lab: None, (sends_again,)),
    Step(refuses_once, (sends,)),
    Step(stops_refusing, (verifies,)),
    Step(replays_once_more, (skips, sends)),
)


@dataclass
class Refusing(Server):
    """`refuses`: each change, for good."""

    refuses: bool = False

    def change(self, name: str, do: Callable[[], None]) -> None:
        if self.refuses:
            raise DeliveryRefused("it does not fit", retry=False)
        do()


@dataclass
class Life:
    """A folder for each step as it is before its tasks, and what the server holds then."""

    folder: Path
    kind: Any
    calls: list[list[Call]] = field(default_factory=list)
    servers: list[Server] = field(default_factory=list)
    specs: list[Any] = field(default_factory=list)

    def lab(self, step: int, faults: Faults) -> Lab:
        here = self.folder / "world"
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(self.folder / f"before-{step}", here)
        return _opened(here, self.kind, faults, copy.deepcopy(self.servers[step]), self.specs[step])


def _opened(folder: Path, kind: Any, faults: Faults, server: Server, spec: Any = None) -> Lab:
    """A world whose folder is there already."""
    kept = (folder / "ledger.db").read_bytes() if (folder / "ledger.db").exists() else None
    folder.mkdir(exist_ok=True)
    lab = Lab(folder, kind, wrap=faults.wrap)
    lab.servers["shop"] = server
    server.around = server.change  # type: ignore[attr-defined]
    if kept is not None:
        (folder / "ledger.db").write_bytes(kept)
        lab.world.pipeline = spec
        lab.world.registered.add(fingerprint(spec))
    return lab


@pytest.fixture(scope="module", params=[Transactional, Staged])
def life(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    """The fault-free life."""
    folder = tmp_path_factory.mktemp("delivery")
    with mock.patch.object(os, "fsync"):
        faults, made = Faults(), Life(folder, request.param)
        lab = _opened(folder / "world", request.param, faults, Refusing())
        for number, step in enumerate(STEPS):
            with calm(lab.world):
                step.happens(lab)
            lab.world.close()
            shutil.copytree(lab.world.folder, folder / f"before-{number}")
            made.servers.append(copy.deepcopy(lab.server))
            made.specs.append(lab.pipeline)
            start = len(faults.calls)
            for task in step.tasks:
                task(lab)
            made.calls.append([c for c in faults.calls[start:]])
            _sound(lab, number)
        yield made


def test_the_life_meets_every_changing_call(life: Life) -> None:
    assert {call.method for calls in life.calls for call in calls} >= OF_A_DELIVERY - {"deliveries.failed"}


@pytest.mark.parametrize("kind", [*KINDS, *OVERTAKINGS])
def test_any_fault_heals(life: Life, kind: str) -> None:
    assert unhealed(life.calls, kind, partial(_lived, life), lambda call: call.method in OF_A_DELIVERY) == []


def _lived(life: Life, step: int, at: int, kind: str) -> str | None:
    faults = Faults.one(at, kind)
    lab = life.lab(step, faults)
    faults.rival = lambda _: _rival(lab, STEPS[step])
    try:
        for task in STEPS[step].tasks:
            until_done(partial(task, lab), faults, TRIES)
        if faults.fired != [life.calls[step][at].site]:
            return f"the fault did not fire, but {faults.fired}"
        faults.arrive()
        lab.world.wrap = lambda name, port: port
        lab.deliver()
        _sound(lab, step)
    except Exception as e:
        return f"{type(e).__name__}: {e}; said: {lab.world.said[-6:]}"
    finally:
        faults.arrive()
        lab.world.close()
    return None


def _rival(lab: Lab, step: Step) -> None:
    """Another process, in the middle of the first one's try."""
    kept = list(lab.world._ledgers)
    lab.world._ledgers.clear()  # the first one's stays open
    with calm(lab.world):
        for task in step.tasks:
            try:
                task(lab)
            except TidegateError as e:
                if not e.retry:
                    raise AssertionError(f"the other one would need a human: {e}") from e
    lab.world._ledgers[:0] = kept


def _sound(lab: Lab, step: int) -> None:
    """Readers there and the ledger agree."""
    with lab.context() as ctx:
        rows = ctx.ledger.deliveries.in_force("readings", "shop", 0, 2**60)
    assert len(rows) == 2
    for one in rows:
        assert one.row is not None
        seen = lab.server.seen.get(one.window_ms, [])
        assert seen == sorted(seen), f"readers met {seen}"
        assert one.row.generation == one.generation
        assert one.row.state != SENDING
        left_out = one.window_ms == T0 and step in (4, 6)
        assert one.row.state == (("REFUSED" if step == 4 else "SKIPPED") if left_out else "STANDING"), one.row
        if not left_out:
            assert seen[-1] == one.generation == one.row.stood
            hour = (one.window_ms - T0) // HOUR
            assert lab.server.ids(one.window_ms) == [f"{hour}-0", f"{hour}-1"]
    assert lab.server.staged == {}
