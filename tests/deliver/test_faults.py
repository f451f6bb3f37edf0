"""Every changing call of a delivery's life fails in every way, or is overtaken by another whole task: in the end each
window's generation in force stands there, readers never met an older one after a newer, and the ledger says so.

`make test` takes one of each method and half of its ways, by the run's seed; `TIDEGATE_FAULTS=all` takes all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.crash.cases import OVERTAKINGS
from tests.crash.faults import KINDS, OF_A_DELIVERY, Faults
from tests.crash.short_life import Play, ShortLife, Step, nothing
from tests.deliver.lab import SHOP, Lab, Server, Staged, Transactional
from tests.world import HOUR, T0, World, window
from tidegate.core.base.errors import DeliveryRefused, LostComparison
from tidegate.core.deliver.states import SENDING
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.base.outcome import FAILED
from tidegate.workflow.deliver import deliver


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


STEPS: tuple[Step[Lab], ...] = (
    Step(lambda lab: lab.hours(2), (sends,)),
    Step(replays, (sends,)),
    Step(loses_rows, (verifies,)),
    Step(nothing, (sends_again,)),
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
class Deliveries(Play[Lab]):
    """`kind`: of the further system."""

    kind: Any
    steps = STEPS

    def opened(self, folder: Path, faults: Faults, kept: Any) -> Lab:
        lab = Lab(folder, self.kind, wrap=faults.wrap)
        server, spec = kept or (Refusing(), None)
        lab.servers["shop"] = server
        server.around = server.change
        if spec is not None:
            lab.world.pipeline = spec
        return lab

    def keeps(self, lab: Lab) -> Any:
        return lab.server, lab.pipeline

    def of(self, lab: Lab) -> World:
        return lab.world

    def ends(self, lab: Lab, step: int) -> None:
        lab.deliver()

    def sound(self, lab: Lab, step: int) -> None:
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


@pytest.fixture(scope="module", params=[Transactional, Staged])
def life(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ShortLife[Lab]:
    return ShortLife(Deliveries(request.param), tmp_path_factory.mktemp("delivery"))


def test_the_life_meets_every_changing_call(life: ShortLife[Lab]) -> None:
    assert life.methods >= OF_A_DELIVERY - {"deliveries.failed"}


@pytest.mark.parametrize("kind", [*KINDS, *OVERTAKINGS])
def test_any_fault_heals(life: ShortLife[Lab], kind: str) -> None:
    assert life.unhealed(kind, lambda call: call.method in OF_A_DELIVERY) == []
