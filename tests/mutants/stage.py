"""A world whose records are remembered, and whose tasks are run as a scheduler would run them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.crash import lakehouse
from tests.hooks import Died, Hook, catalogue_of, use_catalogue
from tests.mutants import invariants
from tests.mutants.invariants import Coordinate
from tests.mutants.names import HEALS, InvariantViolated, require
from tests.world import HOUR, T0, TOPIC, World, record, window
from tidegate.core.base.errors import NotReady, TidegateError
from tidegate.core.files.receipt import DATA
from tidegate.core.spec.pipeline import Column
from tidegate.core.target.paths import SUCCESS
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base.context import REQUEST_TTL_MS, Context
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay

TRIES = 6
T = TypeVar("T")


class Stage(World):
    """`produced` is the producer's own log: what was written where, by topic id."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.produced: dict[Coordinate, str | None] = {}
        self.attempts: list[str] = []
        self._runs = 0

    def produce(self, *records: dict[str, Any] | bytes, partition: int = 0) -> None:
        for r in records:
            value = r if isinstance(r, bytes) else json.dumps(r).encode()
            offset = self.kafka.append(TOPIC, partition, value)
            self.produced[self.topic_id, partition, offset] = None if isinstance(r, bytes) else r["id"]

    @property
    def topic_id(self) -> str:
        return self.kafka.look(TOPIC).topic_id

    def forget(self, *offsets: int, partition: int = 0) -> None:
        """These records are excused: the test has taken them away before anybody could read them."""
        for offset in offsets:
            del self.produced[self.topic_id, partition, offset]

    # ------------------------------------------------------------ what tests need again and again

    def first_hours(self) -> None:
        """Rows for hours 0 to 2 and a dirty record; the watermark (delay one hour) then stands at 02:30."""
        self.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
        self.produce(record("c0", 2.0), record("d0", 3.5), partition=1)

    def hour_0_published(self) -> None:
        self.first_hours()
        self.ingest("r1")
        self.archive(0)

    def other_columns(self) -> None:
        """A spec under which a replay gives other content."""
        id_, site, _ = self.pipeline.columns
        self.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))

    def other_sites(self) -> None:
        """A spec under which a replay gives other partition values: every row goes to the null site."""
        id_, _, value = self.pipeline.columns
        self.change_spec(columns=(id_, Column(name="site", type="string", path="$.place"), value))

    def lose_a_file(self, hour: int = 0) -> None:
        folder = self.folder / f"lake/readings/date=2013-01-05/hour={hour:02d}"
        if self.is_iceberg:
            folder = self.folder / f"lake/readings/_tidegate/generations/20130105T{hour:02d}0000Z.1.1"
        min(folder.rglob("*.parquet")).unlink()

    # ------------------------------------------------------------ tables in Iceberg

    @property
    def is_iceberg(self) -> bool:
        return self.pipeline.sink.kind == lakehouse.KIND

    def table(self, kind: str = "") -> list[tuple[int, int]]:
        return lakehouse.side(self, kind.strip("_") or DATA) if self.is_iceberg else super().table(kind)

    def by_window(self) -> dict[str, list[tuple[int, int]]]:
        if not self.is_iceberg:
            return super().by_window()
        return {hour: sorted(row[:2] for row in rows) for hour, rows in lakehouse.contents(self).items()}

    def hooked(
        self, port: str, before: dict[str, Callable[..., object]] | None = None,
        after: dict[str, Callable[..., object]] | None = None,
    ) -> Context:  # fmt: skip
        """A process with something in the middle of a port; `port`: storage, catalogue, source, launcher, batches..."""
        ctx = self.context()
        if port == "catalogue":
            use_catalogue(ctx, Hook(catalogue_of(ctx), before, after))
            return ctx
        owner: Any = ctx.ledger if port in ("batches", "windows") else ctx
        setattr(owner, port, Hook(getattr(owner, port), before, after))
        return ctx

    # ------------------------------------------------------------ as a scheduler would

    def tried(self, task: Callable[[], T], what: str) -> T | None:
        """Try again as Airflow would, each time later than any request can live. None: it is not due yet (NotReady).

        Raises InvariantViolated if it asks for a human, or never comes to an end."""
        failed: list[str] = []
        for _ in range(TRIES):
            try:
                return task()
            except NotReady:
                return None
            except Died:
                failed.append("died")
            except TidegateError as e:
                failed.append(f"{type(e).__name__}: {e}")
                require(e.retry, HEALS, f"{what}: {failed[-1]}")
            finally:
                self.close()
            self.clock.advance(REQUEST_TTL_MS + 1)
        raise InvariantViolated(HEALS, f"{what} is not done after {TRIES} tries: {failed}")

    def run(self, name: str) -> None:
        """An ingest run's tasks; `ingest` in one try."""
        self.tried(lambda: ingest.plan(self.context(), name), f"plan {name}")
        self.tried(lambda: ingest.write(self.context(), name), f"write {name}")
        self.tried(lambda: ingest.land(self.context(), name), f"land {name}")

    def settle(self) -> None:
        """Let every DAG run until nothing is left to do."""
        while True:
            self._runs += 1
            name = f"settle {self._runs}"
            batch_id = self.tried(lambda n=name: ingest.plan(self.context(), n), f"plan {name}")
            if batch_id is None:
                break
            self.run(name)
        self.tried(lambda: reconcile.maintain(self.context()), "maintain")
        for key in reconcile.due(self.context()):
            self.tried(lambda k=key: archive.publish(self.context(), k), f"archive of {key}")
        self.close()

    def at_rest(self) -> None:
        """Settle, then hold the world against everything that must be true."""
        invariants.what_is_sealed_is_there(self)
        self.settle()
        invariants.nothing_is_blocked(self)
        invariants.what_is_sealed_is_there(self)
        invariants.every_record_once(self, self.produced)
        invariants.readers_see_what_is_in_force(self)
        invariants.the_ledger_balances(self)
        self.close()

    def publish_watched(self, hour: int, ctx: Context | None = None) -> archive.Published:
        """Publish, and look as a reader does at the instant at which `_SUCCESS` appears."""
        return archive.publish(self._watched(ctx or self.context(), window(hour)), window(hour))

    def replay_watched(self, hour: int) -> archive.Published:
        return replay.replay(self._watched(self.context(), window(hour)), window(hour))

    def _watched(self, ctx: Context, key: WindowKey) -> Context:
        def look(_source: str, path: str) -> None:
            if path.endswith(f"/{SUCCESS}"):
                invariants.success_means_whole(self, path.removesuffix(f"/{SUCCESS}"), key)

        ctx.storage = Hook(ctx.storage, after={"rename_no_replace": look})  # type: ignore[assignment]
        return ctx


def refused(task: Callable[[], object], *kinds: type[TidegateError]) -> TidegateError | None:
    """The error with which the task stops; None if it does not."""
    try:
        task()
    except kinds as e:
        return e
    return None


def retryable(task: Callable[[], object]) -> None:
    """What a race may cost is one try of the task, never a human."""
    try:
        task()
    except TidegateError as e:
        require(e.retry, HEALS, f"{type(e).__name__}: {e}")


__all__ = ["HOUR", "T0", "TOPIC", "Stage", "record", "refused", "retryable", "window"]
