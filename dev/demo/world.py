"""Everything that the demo's scenes work with: the running stack, one pipeline, and what they look at an hour with."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from dev.demo.airflow_rest import Airflow
from dev.demo.commands import Commands, Finished
from dev.demo.output import Output
from dev.demo.tables import Place, Tables, place, window_of
from dev.stack.info import StackInfo
from tidegate.core.batch.states import LandedBatch
from tidegate.core.files.receipt import DATA, DIRTY, LATE
from tidegate.core.ledger import Ledger
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.states import PublishedGeneration

T = TypeVar("T")
_LOOK_S = 0.5
_PARSE_S, _COMMAND_S = 180.0, 300.0


class DemoFailed(Exception):
    """The demo cannot go on; one line for the user."""


@dataclass(kw_only=True)
class Stage:
    """What the scenes of every demo work with. `told`: the newest batch that was told of."""

    ledger: Ledger
    airflow: Airflow
    commands: Commands
    out: Output
    told: int = 0

    def wait_for(self, *dags: str) -> None:
        """Until the scheduler has parsed these DAGs."""

        def reason() -> str:
            return "; ".join(self.airflow.import_errors()) or f"Airflow does not know {dags[-1]}"

        wait_until(lambda: all(map(self.airflow.has_dag, dags)), _PARSE_S, reason)

    def tidegate(self, *words: str, last: int | None = None) -> Finished:
        """One command of Tidegate, to its end, shown as an operator types it, with its `last` lines; None: all."""
        self.out.line(f"$ tidegate {' '.join(words)}")
        found = self.commands.run(words[0], [sys.executable, "-m", "tidegate.cli", *words], _COMMAND_S)
        lines = found.text.splitlines()
        self.out.line("\n".join(lines if last is None else lines[-last:]))
        return found

    def confirmed(self, checker: ModuleType, words: Sequence[str], by: str) -> bool:
        """Whether an independent checker, a process of its own that gets nothing but addresses, ends with 0."""
        path = Path(str(checker.__file__)).absolute()
        self.out.line(f"$ python -I {path.name}  ({by}; imports nothing of Tidegate)")
        found = self.commands.run(path.stem, [sys.executable, "-I", str(path), *words], _COMMAND_S)
        self.out.line(found.text)
        return found.ok

    def say_landed(self, name: str) -> None:
        """A line for each batch that has landed since the last time."""
        if self.ledger.pipelines.row(name) is None:  # the first run registers it
            return
        while self.told + 1 < self.ledger.batches.planning_view(name).next_batch_id:
            batch = self.ledger.batches.get(name, self.told + 1)
            if not isinstance(batch, LandedBatch):
                return
            self.told += 1
            files = self.ledger.batches.manifest_files(name, self.told)
            rows = {kind: sum(f.rows for f in files if f.kind == kind) for kind in (DATA, LATE, DIRTY)}
            words = ", ".join(f"{n:,} {kind}" for kind, n in rows.items() if n)
            offsets = f"batch {self.told} (epoch {batch.epoch}): {batch.plan.records:,} offsets"
            self.out.line(f"{offsets} -> {words}, {len(files):,} files")


@dataclass(kw_only=True)
class World(Stage):
    """The parts of the stack as the demo uses them."""

    info: StackInfo
    pipeline: Pipeline
    tables: Tables
    asked: tuple[str, ...]  # by the checker: its words for the catalogue

    @property
    def ingest_dag(self) -> str:
        return f"{self.pipeline.name}.ingest"

    @property
    def archive_dag(self) -> str:
        return f"{self.pipeline.name}.archive"

    @property
    def workdir(self) -> Place:
        """`_tidegate` where it is stored."""
        return place(self.pipeline.sink.workdir)

    def published(self, hour: datetime) -> PublishedGeneration | None:
        """The generation in force, None for an hour that is not published."""
        key = window_of(hour)
        number = self.ledger.windows.get(self.pipeline.name, key).current
        found = None if number is None else self.ledger.windows.generation(self.pipeline.name, key, number)
        return found if isinstance(found, PublishedGeneration) else None


@dataclass(frozen=True)
class HourState:
    """An hour as the ledger, the catalogue and the disk have it. `files`: path -> (inode, mtime in ns, bytes)."""

    generation: int
    digest: str
    rows: int
    partitions: dict[str, list[Place]]
    files: dict[str, tuple[int, int, int]]


def hour_state(world: World, hour: datetime) -> HourState:
    """Raises DemoFailed when the hour is not published."""
    published = world.published(hour)
    if published is None:
        raise DemoFailed(f"{hour_name(hour)} is not published")
    partitions = world.tables.partitions(hour)
    return HourState(
        published.number,
        published.digest,
        sum(f.rows for f in published.files),
        partitions,
        {str(f): _identity(f) for files in partitions.values() for f in files},
    )


def wait_until(look: Callable[[], T | None], timeout_s: float, otherwise: Callable[[], str]) -> T:
    """Poll until something is found. Raises DemoFailed with the text of `otherwise` when the time is up."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        if time.monotonic() > deadline:
            raise DemoFailed(f"{otherwise()} (waited {timeout_s:.0f} s)")
        time.sleep(_LOOK_S)
    return found


def hour_name(hour: datetime) -> str:
    """The hour as commands and people write it: 2013-01-26T16:00."""
    return hour.strftime("%Y-%m-%dT%H:%M")


def utc(day: int, hour: int, month: int = 1) -> datetime:
    return datetime(2013, month, day, hour, tzinfo=UTC)


def to_ms(instant: datetime) -> int:
    return int(instant.timestamp()) * 1000


def _identity(file: Place) -> tuple[int, int, int]:
    stat = file.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
