"""What others say: what the tables show and the broker's offsets against the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tidegate.core.audit.problems import Problem, republish
from tidegate.core.base.errors import CatalogueError, CatalogueMismatch, TidegateError
from tidegate.core.base.instants import iso
from tidegate.core.base.partition_values import PartitionValues, partition_path
from tidegate.core.base.wording import many
from tidegate.core.files.receipt import DIRTY, LATE, FileEntry
from tidegate.core.look.views import BatchRow, GenerationRow, Spine
from tidegate.core.mirror.applies import Told
from tidegate.core.source.progress import begins
from tidegate.core.target.port import BATCH, PrefixTarget
from tidegate.core.window.cut import parse_window_id, window_id
from tidegate.core.window.states import CURRENT, SWAPPING, WindowKey
from tidegate.workflow.base.context import Context

_REBUILD = (
    "find out who changed the table, and take it back to the snapshot before that: the next merge goes on from there "
    "(docs/mirrors.md)"
)
Expected = dict[PartitionValues, tuple[str, str]]
"""Partition values -> (location, subject)."""


class Partitions:
    """The partitions that the ledger's manifests need, gathered page by page, compared with the three tables."""

    def __init__(self, ctx: Context, spine: Spine, later: Callable[[], Spine | None] = lambda: None) -> None:
        """`later` reads the spine anew."""
        self._ctx, self._spine, self._later = ctx, spine, later
        # a partition goes before the generation that takes its rows up is in force
        self._leaving = {(i, g.window_ms) for g in spine.generations if g.state in (SWAPPING, CURRENT) for i in g.late}
        self._data: Expected = {}
        self._sides: dict[str, Expected] = {LATE: {}, DIRTY: {}}
        self._coming: dict[str, Expected] = {LATE: {}, DIRTY: {}}  # may be there before the ledger has noted it
        self.notes: list[str] = []
        self.count: int | None = None
        self.keyed: Told | None = None

    def expect_window(self, g: GenerationRow) -> None:
        key = WindowKey(g.window_ms, g.window_ms)
        for values, place in self._ctx.target.expected(key, g.files, g.location or "").items():
            self._data[values] = (place, f"window {window_id(g.window_ms)}")

    def expect_batch(self, batch: BatchRow, files: tuple[FileEntry, ...]) -> None:
        sides = self._sides if batch.side_registered else self._coming
        for f in files:
            if f.kind not in sides:
                continue
            # a late ADD may show it again, without a file
            left = batch.redriven_by is not None if f.kind == DIRTY else (batch.batch_id, f.window_ms) in self._leaving
            for values, place in self._ctx.sides[f.kind].expected({batch.batch_id: [f]}).items():
                (self._coming if left else sides)[f.kind][values] = (place, f"batch {batch.batch_id}")

    def compare(self) -> Iterator[Problem]:
        """`count` is None afterwards where the endpoint did not answer; `notes` say why."""
        if self._ctx.keyed is not None:
            yield from self._keyed(self._ctx.keyed)
            return
        count, sides = 0, self._ctx.sides
        for window_ms in sorted(self._moving()):
            self.notes.append(f"window {iso(window_ms)} is being swapped: its partitions were not compared")
        for table, expected, coming in (
            (self._ctx.target, self._data, {}),
            (sides[LATE], self._sides[LATE], self._coming[LATE]),
            (sides[DIRTY], self._sides[DIRTY], self._coming[DIRTY]),
        ):
            if not expected:
                continue  # the table may not have been created yet
            self._ctx.say(f"catalogue: {many(len(expected), 'partition')} of {table.name}")
            try:
                have = table.shown()
            except TidegateError as e:
                if not isinstance(e, CatalogueError) or not self._ctx.target.answers():
                    self.notes.append(f"the catalogue was not checked: {str(e).splitlines()[0]}")
                    return
                words = str(e).splitlines()[0]
                what = words if words.startswith((table.name, f"table {table.name}")) else f"{table.name}: {words}"
                yield Problem("catalogue", what, e.advice or "fix or create the table")
                self.notes.append(
                    f"not compared until that is fixed: {many(len(expected), 'partition')} of {table.name}"
                )
                continue
            have_, count = {v: at for v, at in have.items() if v not in coming}, count + len(have)
            if have_ != {v: place for v, (place, _) in expected.items()}:
                yield from self._problems(table.name, expected, have_, table.agrees)
        self.count = count

    def _keyed(self, table: PrefixTarget) -> Iterator[Problem]:
        """A keyed table against itself, by its sums and the files that it names, and against the batches that it says
        it holds (M3, M4). What a merge does meanwhile is seen whole or not at all."""
        self._ctx.say(f"catalogue: the sums of {table.name}")
        try:
            prefix, buckets = table.base()
        except CatalogueMismatch as e:
            yield Problem("catalogue", str(e).splitlines()[0], e.advice)
            return
        except TidegateError as e:
            self.notes.append(f"the catalogue was not checked: {str(e).splitlines()[0]}")
            return
        landed = self._ctx.ledger.applies.rows(self._ctx.name, prefix.upto)
        if landed != prefix.events:
            taken = f"its merges have taken {many(prefix.events, 'event')} of batches 1 to {prefix.upto}"
            yield Problem("catalogue", f"{table.name}: {taken}, which have landed {landed:,}", _REBUILD)
        newest = self._ctx.ledger.applies.landed(self._ctx.name, prefix.upto).newest
        if prefix.upto > newest:
            what = f"it holds batches 1 to {prefix.upto}, but the newest that has landed is {newest}"
            yield Problem("catalogue", f"{table.name}: {what}", "the ledger may have lost commits: docs/mirrors.md")
        self.count, self.keyed = len(buckets), Told.by(prefix)

    def _problems(
        self, table: str, expected: Expected, have: dict[PartitionValues, str], agrees: Callable[[str, str], bool]
    ) -> Iterator[Problem]:
        later = self._later() or self._spine  # after the catalogue: windows are published meanwhile
        moving = {self._ctx.target.values(WindowKey(w, w)) for w in self._moving() | _moved(self._spine, later)}

        def settled(values: PartitionValues) -> bool:
            batch = values[0][1] or "" if values and values[0][0] == BATCH else ""
            at = values[1:] if batch else values
            if any(at[: len(window)] == window for window in moving):
                return False
            return not (batch.isdigit() and later.landed(int(batch)) and not self._spine.landed(int(batch)))

        for values, (place, subject) in expected.items():
            name = f"{table} partition {partition_path(values)}"
            if values not in have and settled(values):
                yield Problem(subject, f"{name} is not in the catalogue", self._advice(subject))
            elif values in have and not agrees(place, have[values]) and settled(values):
                yield Problem(subject, f"{name} is at {have[values]}, should be at {place}", self._advice(subject))
        for values in sorted(set(have) - set(expected), key=partition_path):
            if settled(values):
                name = f"{table} partition {partition_path(values)}"
                yield Problem("catalogue", f"{name} belongs to no manifest ({have[values]})", "find out who added it")

    def _advice(self, subject: str) -> str:
        if subject.startswith("window "):
            return republish(self._ctx.name, parse_window_id(subject.removeprefix("window ")))
        return self._ctx.sides[LATE].remedy

    def _moving(self) -> set[int]:
        """Windows whose partitions are on their way from one generation to the next."""
        return {g.window_ms for g in self._spine.generations if g.state == SWAPPING}


def _moved(before: Spine, after: Spine) -> set[int]:
    """Windows with another generation, or with one in another state or place."""
    one, other = ({(g.window_ms, g.number): replace(g, set_aside=()) for g in s.generations} for s in (before, after))
    return {key[0] for key in one.keys() | other.keys() if one.get(key) != other.get(key)} | {
        g.window_ms for g in after.generations if g.state == SWAPPING
    }


@dataclass(frozen=True)
class Produced:
    """Offsets of the topic as the broker has them now, against the newest plan. `earlier`: offsets that were planned of
    topics of its name before it, or at other sites."""

    offsets: int
    not_planned: int
    passed_by_retention: int
    earlier: int = 0


class Topic:
    """Where reading began and how far it is planned, for the topic that the ledger accepts."""

    def __init__(self, ctx: Context, spine: Spine) -> None:
        self._ctx, self._accepted = ctx, spine.topic_id
        self._lost = {(x.batch_id, x.partition): x.start for x in spine.losses}
        self._firsts: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._earlier = 0
        self.notes: list[str] = []
        self.produced: Produced | None = None

    def planned(self, batch: BatchRow) -> None:
        """Take a plan up, in order of the batches."""
        if batch.is_redrive:
            return
        if batch.topic_id != self._accepted:
            self._earlier += sum(r.range.count for r in batch.ranges)
            return
        starts = {r.range.partition: r.range.start for r in batch.ranges}
        for p, end in batch.ends.items():
            self._firsts.setdefault(p, self._lost.get((batch.batch_id, p), starts.get(p, end)))
        self._ends = dict(batch.ends)

    def compare(self) -> Iterator[Problem]:
        """`produced` is None afterwards where the broker did not answer; `notes` say why."""
        topic = self._ctx.pipeline.source.topic
        try:
            state = self._ctx.log(topic)
        except TidegateError as e:
            self.notes.append(f"the broker was not asked: {str(e).splitlines()[0]}")
            return
        if state.is_another(self._accepted):
            self.notes.append(f"topic {topic} was recreated ({state.topic_id}); nothing of the new one was read yet")
            return
        if state.traits.windowed:
            return  # a table does not say how many rows it had, and has
        ends, firsts = self._ends, self._firsts
        for p, end in sorted(ends.items()):
            if p in state.partitions and end > state.partitions[p].high_watermark:
                yield Problem(
                    f"partition {p}",
                    f"read to offset {end}, but the topic ends at {state.partitions[p].high_watermark}",
                    "the topic lost its newest records: compare with the producers",
                )
        high = {p: o.high_watermark for p, o in state.partitions.items()}
        self.produced = Produced(
            sum(h - firsts.get(p, begins(ends, p, state.partitions[p].log_start)) for p, h in high.items()),
            sum(max(0, h - begins(ends, p, state.partitions[p].log_start)) for p, h in high.items()),
            sum(max(0, o.log_start - begins(ends, p, o.log_start)) for p, o in state.partitions.items()),
            self._earlier,
        )
