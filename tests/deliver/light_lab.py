"""Hours that are published by a line in the ledger: no topic, no files, so that many lives take a moment. Their rows
are handed to the further system as if they had been read; the ledger, the workflow and the system's table are real."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.deliver.lab import Direct, Lab
from tests.deliver.rows import Made
from tests.world import T0, window
from tidegate.core.base.errors import LostComparison
from tidegate.core.deliver.columns import delivered_columns
from tidegate.core.deliver.port import FurtherSystem, Table
from tidegate.core.deliver.states import Due
from tidegate.core.spec.pipeline import Delivery
from tidegate.core.window.states import WindowKey
from tidegate.workflow.deliver import content, ready
from tidegate.workflow.deliver.content import Content

Row = dict[str, Any]


class _Handed(Direct):
    """A generation is its rows."""

    def _rows(self, window_ms: int, generation: Any) -> Any:
        return generation


class LightLab(Lab):
    """`held`: the rows of each hour's generations, from the first on."""

    def __init__(self, folder: Path, kind: type[Any]) -> None:
        super().__init__(folder, kind)
        self.held: dict[int, list[Sequence[Row]]] = {}

    def _sender(self, delivery: Delivery) -> Direct:
        table = Table(
            pipeline="readings",
            delivery=delivery.name,
            name=delivery.table,
            columns=delivered_columns(self.pipeline),
            options=delivery.options,
            spec=self.pipeline,
        )
        system: FurtherSystem = self.kind(self.servers[delivery.name], table)
        return _Handed(system, table)

    def publish(self, hour: int, rows: Sequence[Row]) -> None:
        """A further generation of the hour comes into force."""
        found, at = self.held.setdefault(hour, []), window(hour).start_ms
        found.append(rows)
        with closing(sqlite3.connect(self.world.database)) as c, c:
            c.execute("UPDATE generations SET state = 'RETIRED' WHERE window_ms = ? AND state = 'CURRENT'", (at,))
            c.execute(
                "INSERT INTO generations (pipeline, window_ms, number, state, epoch, nonce, kind, published_ms) "
                "VALUES ('readings', ?, ?, 'CURRENT', 1, 'n', 'replay', ?)",
                (at, len(found), self.world.clock.now_ms()),
            )

    @contextmanager
    def context(self) -> Iterator[Any]:
        yield self.world.context()

    def of(self, ctx: Any, one: Due) -> Content:
        """`content.of`."""
        found = self.held[(one.window_ms - T0) // 3_600_000]
        if one.generation != len(found):
            raise LostComparison("it is not in force any more")
        rows: Any = Made(list(found[-1]), one.window_ms, delivered_columns(ctx.pipeline))
        return Content(digest=f"d{one.generation}", rows=len(rows.rows), generation=rows)

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Generations have no files."""
        with ExitStack() as stack:
            stack.enter_context(patch.object(content, "of", self.of))
            stack.enter_context(patch.object(ready.preflight, "check", lambda ctx: None))
            yield


def hours(count: int) -> list[WindowKey]:
    """From 0 on."""
    return [window(hour) for hour in range(count)]
