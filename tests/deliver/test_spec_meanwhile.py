"""The YAML changes while a task delivers: what has other columns by then is left to the next run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.deliver.lab import SHOP, Lab, Staged, Transactional
from tests.deliver.test_deliver import more_columns
from tests.world import HOUR, T0, window
from tidegate.core.base.errors import DeliveryRefused
from tidegate.workflow.deliver import deliver, ready


@pytest.fixture(params=[Transactional, Staged])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    found = Lab(tmp_path, request.param)
    found.hours(2)
    return found


def values(lab: Lab, hour: int) -> set[Any]:
    return {row.get("x") for batch in lab.server.rows.get(T0 + hour * HOUR, ()) for row in batch.to_pylist()}


def test_a_window_with_columns_that_the_task_does_not_know_is_left_to_the_next(lab: Lab) -> None:
    """Else they would be null there, and the window would stand."""

    def meanwhile(name: str, do: Any) -> None:
        lab.server.around = lambda name, do: do()
        more_columns(lab)
        lab.world.replay(1)
        do()

    lab.server.around = meanwhile
    with pytest.raises(DeliveryRefused, match="the YAML has changed since this task began") as caught:
        lab.deliver()
    assert caught.value.retry
    assert (values(lab, 0), values(lab, 1)) == ({None}, set())
    assert lab.deliver() == ["delivered"]
    assert values(lab, 1) == {"1-0", "1-1"}


def test_a_change_between_two_steps_of_a_task_is_noticed(lab: Lab) -> None:
    """A task that was cleared compares first, and then sends what is due."""
    with lab.context() as ctx:
        sender = ctx.sender(SHOP)
        ready.prepare(ctx, SHOP, sender)
        assert [s.what for s in deliver.verify(ctx, SHOP, sender, [window(0)])] == ["delivered"]
        more_columns(lab)
        lab.world.replay(1)
        with pytest.raises(DeliveryRefused, match="the YAML has changed since this task began"):
            list(deliver.deliver(ctx, SHOP, sender))
    assert values(lab, 1) == set()


def test_a_yaml_that_was_there_before_holds_nothing_up(lab: Lab) -> None:
    before = lab.pipeline.columns
    more_columns(lab)
    lab.world.replay(1)
    lab.world.change_spec(columns=before)
    assert lab.deliver() == ["delivered", "delivered"]
