"""What happens before and after a ledger loses commits."""

from __future__ import annotations

from collections.abc import Callable

from tests.ledger_loss import go_on
from tests.world import World, record
from tidegate.core.spec.pipeline import Column


def first_records(world: World) -> None:
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
    world.produce(record("c0", 2.0), record("d0", 3.5), partition=1)


def change_columns(world: World) -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))


def goes_on(world: World) -> None:
    """The next runs, with a batch of new records; an operator adopts where a run says that it is needed."""
    world.produce(record("next", 4.2), record("next", 4.3), partition=1)
    tasks: list[Callable[[], object]] = [
        lambda: world.ingest("r8"), lambda: world.ingest("r9"), lambda: world.archive(0), lambda: world.archive(1),
        lambda: world.archive(2),
    ]  # fmt: skip
    go_on(world, tasks)


def waiting(world: World) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    for folder in sorted((world.folder / "lake/readings/_tidegate/landed").iterdir()):
        rows += world.rows_at(str(folder / "data"))
    return rows
