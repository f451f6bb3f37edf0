"""A reply that is lost loses no message."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.tell.test_notices import Channel, late, world
from tests.world import World, window
from tidegate.core.base.errors import LedgerError
from tidegate.core.tell.notices import (
    RAISED,
    RESOLVED,
)
from tidegate.workflow.audit import checkup
from tidegate.workflow.tell.notices import tell

__all__ = ["world"]  # fixtures


# ---------------------------------------------------------------- lost replies


CHANGING = ("note", "told", "ended", "closed", "forget", "news", "audited")


class Unsure:
    """The ledger's notices, of which one changing call has no answer, executed or not."""

    def __init__(self, port: Any, fails_at: int, executed: bool) -> None:
        self.port, self.fails_at, self.executed, self.met = port, fails_at, executed, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.port, name)
        if name not in CHANGING:
            return real

        def call(*args: Any) -> Any:
            self.met += 1
            if self.met != self.fails_at:
                return real(*args)
            if self.executed:
                real(*args)
            raise LedgerError(f"{name}: no reply")

        return call


@pytest.mark.parametrize("executed", [True, False])
def test_a_reply_that_is_lost_loses_no_message(world: World, executed: bool) -> None:
    """At every changing call, in turn, over the life of an alarm; each of its messages arrives, all but the one in hand
    once."""
    late(world)
    for hour in (0, 1):
        world.archive(hour)
    world.context().ledger.windows.block("readings", window(0), "odd")
    database = world.database.read_bytes()
    for fails_at in range(1, 99):
        world.close()
        world.database.write_bytes(database)
        ctx, people = world.context(), Channel()
        ctx.ledger.notices = unsure = Unsure(ctx.ledger.notices, fails_at, executed)  # type: ignore[misc]

        def run(ctx: Any = ctx, people: Channel = people) -> None:
            for _ in range(2):  # the second one is the next run of maintenance
                with suppress(LedgerError):
                    checkup.if_due(ctx, ctx.ledger.reads)
                    tell(ctx, ctx.ledger.reads, [people])

        run()
        ctx.ledger.repairs.clear_window("readings", window(0), "odd", "mended")  # type: ignore[attr-defined]
        run()
        ids = [m["id"].rpartition("/")[2] for m in people.got]
        assert set(ids) == {RAISED, RESOLVED}, (fails_at, ids)
        assert len(ids) - 2 <= (1 if unsure.met >= fails_at else 0), "only the message in hand is sent again"
        assert len({m["id"] for m in people.got}) == 2
        if unsure.met < fails_at:
            break
    assert fails_at > 6, "no call was met"
