"""What people are told of an hour that waits until rows have left another table there (D11): which rows, and what to
do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.deliver.side_lab import HiveSides, begun, reopens, sends
from tidegate.cli.deliver import _print
from tidegate.core.deliver.due import in_words
from tidegate.core.deliver.units import held_way_on
from tidegate.core.window.cut import window_from
from tidegate.workflow.deliver import deliver
from tidegate.workflow.look import status
from tidegate.workflow.look.explanation import Reached, explain


@pytest.fixture
def lab(tmp_path: Path) -> HiveSides:
    """Hour 0 has taken two late rows up that stand in the late table there."""
    made = HiveSides(tmp_path)
    begun(made)
    sends(made)
    reopens(made.world)
    return made


def explained(lab: HiveSides) -> Reached:
    with lab.context() as ctx:
        (found,) = explain(
            ctx, ctx.ledger.reads, window_from(lab.pipeline.windows.start_ms, lab.pipeline.windows)
        ).deliveries
        return found


def told(lab: HiveSides) -> status.PipelineStatus:
    with lab.context() as ctx:
        now_ms = lab.world.clock.now_ms()
        return status.statuses([lab.pipeline], {}, ctx.ledger.reads, now_ms)["readings"]


WORDS = "it holds late rows of batch 2, and shop.late does not stand without them yet"


def test_an_hour_that_waits_says_for_which_rows(lab: HiveSides) -> None:
    found = explained(lab)
    assert found.said.endswith(WORDS)
    assert found.held_by == (("late", 2),)
    assert "tidegate deliver readings --to shop.late, then tidegate deliver readings --to shop;" in found.next_step
    assert "tidegate deliver readings --to shop.late --batch 2 --skip --why" in found.next_step
    sends(lab)
    assert (explained(lab).said, explained(lab).next_step) == ("generation 2 stands there (4 rows)", "")


def test_it_says_why_these_rows_do_not_leave(lab: HiveSides) -> None:
    with lab.context() as ctx:
        (one,) = ctx.ledger.deliveries.due("readings", "shop.late", None, 9)
        ctx.ledger.deliveries.refuse(ctx.ledger.deliveries.take("readings", "shop.late", one, "d", "n"), "no right")
    assert explained(lab).said.endswith(f"{WORDS}; batch 2 is REFUSED for shop.late: no right")


def test_a_delivery_by_hand_says_so(lab: HiveSides, capsys: pytest.CaptureFixture[str]) -> None:
    with lab.context() as ctx:
        sent = list(deliver.deliver(ctx, lab.pipeline.deliver[0], lab.opened(lab.pipeline.deliver[0])))
    _print("shop", sent, None, "nothing is due")
    said = capsys.readouterr().out
    assert f"waits: {WORDS}\n    what to do: nothing, if shop.late gets on" in said


def test_status_says_so_too(lab: HiveSides) -> None:
    hours, late, _ = told(lab).backlogs
    assert in_words(hours, lab.world.clock.now_ms()).endswith(WORDS)
    assert (late.due, late.held_by) == (1, ())
    given = tuple(replace(one, sla_ms=0) for one in lab.pipeline.deliver)
    lab.world.change_spec(deliver=given)
    lab.world.clock.advance(60_000)
    (concern, *_) = [c for c in told(lab).concerns if c.kind == "late_delivery"]
    assert concern.what.startswith("a published window waits for the delivery shop, the oldest (2013-01-05T00:00Z)")
    assert concern.what.endswith(f"; {WORDS}")
    assert concern.advice == held_way_on("readings", "shop", [("late", 2)])
