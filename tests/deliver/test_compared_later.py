"""What has changed since an hour was delivered, or while it is compared, and is no difference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.deliver.lab import Lab, Staged, Transactional
from tests.deliver.side_lab import HiveSides, begun, reopens, sends
from tests.deliver.test_parts import changed, compared
from tests.world import T0
from tidegate.core.spec.pipeline import Column, Pipeline
from tidegate.workflow.deliver import deliver


def added(spec: Pipeline) -> tuple[Column, ...]:
    return (Column(name="x", type="string", path="$.id"), *spec.columns)


def dropped(spec: Pipeline) -> tuple[Column, ...]:
    return tuple(c for c in spec.columns if c.name != "value")


@pytest.fixture(params=[Transactional, Staged])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    made = Lab(tmp_path, request.param)
    made.hours(2)
    made.deliver()
    return made


@pytest.mark.parametrize("change", [added, dropped])
def test_an_hour_from_before_a_change_of_columns_is_unchanged(
    lab: Lab, change: Callable[[Pipeline], tuple[Column, ...]]
) -> None:
    """Its checksum of then is over the columns of then."""
    lab.world.change_spec(columns=change(lab.pipeline))
    assert lab.deliver() == []
    assert compared(lab) == [("unchanged", "", []), ("unchanged", "", [])]
    assert lab.verify(0, 1) == ["unchanged", "unchanged"]
    assert lab.states() == ["STANDING 1.1", "STANDING 1.1"]
    a, b = lab.server.rows[T0]
    lab.server.rows[T0] = [a, changed(b, "id", "another")]
    words = "values there are not those that were delivered"
    assert compared(lab)[0] == ("differs", words, ["site=b: 1 row, other values there"])
    assert lab.verify(0) == ["delivered"]


def meanwhile(sender: Any, do: Callable[[], Any]) -> Any:
    """A sender that answers `standing` once something has been done."""
    real, before = sender.standing, [do]

    def standing(unit: int) -> Any:
        while before:
            before.pop()()
        return real(unit)

    sender.standing = standing
    return sender


def test_an_hour_that_is_sent_again_meanwhile_does_not_differ(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.hours(1)
    lab.deliver()
    with lab.context() as ctx:
        one = lab.pipeline.deliver[0]
        sender = meanwhile(ctx.sender(one), lambda: lab.verify(0, why="somebody doubts it"))
        (found,) = deliver.compare(ctx, one, sender)
    assert (found.what, found.why) == ("overtaken", "another try was begun while it was compared")


def test_a_batch_whose_rows_leave_meanwhile_does_not_differ(tmp_path: Path) -> None:
    lab = HiveSides(tmp_path)
    begun(lab)
    sends(lab)
    with lab.context() as ctx:
        late = lab.pipeline.deliver[1]

        def leave() -> None:
            reopens(lab.world)
            sends(lab, "shop.late")

        (found,) = deliver.compare(ctx, late, meanwhile(ctx.sender(late), leave))
    assert (found.what, found.unit) == ("overtaken", "batch 2")
