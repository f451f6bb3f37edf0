"""An audit that reads while the pipeline works: between any two of its looks the pipeline may take any of its steps.

No false alarm, whatever moved; and what is really wrong is named all the same.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import pytest

from tests.crash.faults import CHANGING, Faults
from tests.crash.kept import InProcess
from tests.crash.matrix import in_memory, quick
from tests.crash.scenario import Snapshot, calm
from tests.hooks import catalogue_of, use_catalogue
from tests.world import HOUR, T0, World, make_pipeline, record, window
from tidegate.core.base.errors import ReplayRefused
from tidegate.core.spec.pipeline import Column, Merge, Reopening
from tidegate.workflow.audit import audit
from tidegate.workflow.dirty import redrive
from tidegate.workflow.late import reopen
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive

HOURS = 6
SEEDS = 200 if os.environ.get("TIDEGATE_FAULTS") == "all" else 3


class Beside:
    """The pipeline's life in a thread of its own, which stands still before each change until it is let go on."""

    def __init__(self) -> None:
        self._go, self._stood = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._free = self.over = False
        self.trouble: BaseException | None = None

    def wrap(self, name: str, port: Any) -> Any:
        return _Standing(self, CHANGING.get(name, frozenset()), port)

    def begin(self, life: Callable[[], None]) -> None:
        def lived() -> None:
            try:
                life()
            except BaseException as e:
                self.trouble = e
            self.over = True
            self._stood.release()

        self._thread = threading.Thread(target=lived, daemon=True)
        self._thread.start()
        assert self._stood.acquire(timeout=60)

    def stand(self) -> None:
        """Called by the life."""
        if threading.current_thread() is self._thread and not self._free:
            self._stood.release()
            assert self._go.acquire(timeout=300)

    def change(self, times: int) -> None:
        """So many changes, if there are as many."""
        for _ in range(times):
            if self.over:
                return
            self._go.release()
            assert self._stood.acquire(timeout=60)

    def end(self) -> None:
        """The rest of it."""
        self._free = True
        self._go.release()
        assert self._thread is not None
        self._thread.join(60)
        if self.trouble is not None:
            raise self.trouble


class _Standing:
    def __init__(self, beside: Beside, changing: frozenset[str], port: Any) -> None:
        self._beside, self._changing, self._port = beside, changing, port

    def __getattr__(self, method: str) -> Any:
        if method in self._changing:
            self._beside.stand()
        return getattr(self._port, method)


class Looking:
    """A port whose every call lets something happen before it and behind it; so does each page of a reading."""

    def __init__(self, port: Any, meanwhile: Callable[[], None]) -> None:
        self._port, self._meanwhile = port, meanwhile

    def __getattr__(self, method: str) -> Any:
        real = getattr(self._port, method)
        if not callable(real):
            return real

        def looked(*args: Any, **options: Any) -> Any:
            self._meanwhile()
            found = real(*args, **options)
            self._meanwhile()
            return self._pages(found) if isinstance(found, Iterator) else found

        return looked

    def _pages(self, pages: Iterator[Any]) -> Iterator[Any]:
        for page in pages:
            self._meanwhile()
            yield page


# ---------------------------------------------------------------- a busy life


def prepared(folder: Path) -> World:
    """Some hours have landed, two are published, late and dirty rows wait."""
    spec = make_pipeline(f"file://{folder}/lake/readings")
    world = World(folder, replace(spec, reopening=Reopening(age_ms=None)))
    world.produce(*[record(f"r{h}", h + 0.2) for h in range(HOURS)], record("s", 0.4, "b"), b"not json")
    world.produce(record("end", HOURS + 1.5), record("more", 1.3, "c"), partition=1)
    world.ingest("r1")
    world.archive(0)
    world.produce({"id": "odd", "site": "a", "at": T0 + int(5.3 * HOUR), "value": "x", "other": 5}, record("late", 0.7))
    world.ingest("r2")
    world.archive(1)
    ctx = world.context()
    reconcile.maintain(ctx)
    world.close()
    return world


def published(world: World, step: Callable[..., archive.Published], hour: int, *more: Any, **options: Any) -> None:
    ctx = world.context()
    archive.announced(ctx, step(ctx, window(hour), *more, **options))


def busy(world: World, dice: random.Random) -> None:
    """Publications one after the other, and whatever else moves files, in an order that the dice say."""
    id_, site, value = world.pipeline.columns
    hours = list(range(2, HOURS))

    def hour() -> None:
        if hours:
            published(world, archive.publish, hours.pop(0))

    def batch() -> None:
        at = dice.uniform(0, HOURS + 1)
        world.produce(record(f"x{at}", at, dice.choice("abc")), record("bad", at) | {"value": "x"})
        world.ingest(f"r{dice.random()}")

    def reopened() -> None:
        late = [x for x in world.context().ledger.reopenings.candidates("readings") if x.current]
        if late:
            number = (late[0].start_ms - T0) // HOUR
            published(world, reopen.reopen, number, "late rows", over_budget=True)

    def replayed() -> None:
        column = Column(name="value", type="int", path=dice.choice(("$.value", "$.other")))
        swap = dice.choice(("pointer", "directory"))
        world.change_spec(columns=(id_, site, column), archive=replace(world.pipeline.archive, swap=swap))
        world.replay(dice.choice((0, 1)))

    def redriven() -> None:
        world.change_spec(columns=(id_, site, Column(name="value", type="string", path="$.value")))
        try:
            if redrive.plan(world.context(), "rd") is not None:
                redrive.carry_out(world.context(), "rd")
        finally:
            world.change_spec(columns=(id_, site, value))

    def maintained() -> None:
        world.clock.advance(dice.choice((60_000, 40 * 86_400_000)))
        reconcile.maintain(world.context())

    def healed() -> None:
        world.change_spec(archive=replace(world.pipeline.archive, merge=Merge(2**20, 2**21)))
        world.archive(0)

    deeds = [hour] * 5 + [batch] * 4 + [reopened] * 3 + [replayed] * 3 + [maintained] * 3 + [healed]
    dice.shuffle(deeds)
    for deed in deeds:
        with suppress(ReplayRefused):  # a redriven row that the replay's columns cannot decode
            deed()
    reconcile.maintain(world.context())


@pytest.fixture(scope="module")
def beginning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Snapshot]]:
    folder = Path(in_memory() or tmp_path_factory.mktemp("meanwhile")) / f"tidegate-meanwhile-{os.getpid()}"
    folder.mkdir()
    with quick():
        (folder / "world").mkdir()
        made = prepared(folder / "world")
        yield made.folder, Snapshot.of(made, folder / "before", linked=True)
    shutil.rmtree(folder)


def audited(
    beginning: tuple[Path, Snapshot], seed: object, spoil: Callable[[World], None] = lambda w: None
) -> audit.Report:
    """The report of an audit beside a life, both by the dice of that seed."""
    dice = random.Random(f"{os.environ['TIDEGATE_TEST_SEED']}:{seed}")
    folder, before = beginning
    world = before.restore(folder, Faults())
    spoil(world)
    with calm(world):
        ctx = world.context()
    beside = Beside()
    world.wrap = beside.wrap
    slow = dice.choice((0.05, 0.2, 0.5))

    def meanwhile() -> None:
        if dice.random() < slow:
            beside.change(dice.choice((1, 1, 2, 5, 30)))

    ctx.storage = Looking(ctx.storage, meanwhile)
    use_catalogue(ctx, Looking(catalogue_of(ctx), meanwhile))
    ctx.pipeline = world.pipeline
    reads, reader = Looking(ctx.ledger.reads, meanwhile), Looking(InProcess(), meanwhile)
    beside.begin(lambda: busy(world, dice_of_life))
    try:
        return audit.audit(ctx, reads, reader)  # type: ignore[arg-type]
    finally:
        beside.end()
        world.close()


dice_of_life = random.Random(0)


@pytest.fixture(autouse=True)
def no_pauses() -> Iterator[None]:
    with mock.patch.object(audit, "PAUSE_S", 0):
        yield


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_pipeline_at_work_raises_no_false_alarm(beginning: tuple[Path, Snapshot], seed: int) -> None:
    dice_of_life.seed(f"{os.environ['TIDEGATE_TEST_SEED']}:life:{seed}")
    report = audited(beginning, seed)
    assert report.problems == ()
    assert report.unsettled == ()


def test_rows_that_each_look_finds_moving_are_other_ones_each_time(tmp_path: Path) -> None:
    """Between the batches and the windows of a look one hour takes its late row up; of the next look another one."""
    world = World(tmp_path)
    world.produce(*[record(f"r{h}", h + 0.2) for h in range(HOURS)])
    world.produce(record("end", HOURS + 1.5), partition=1)
    world.ingest("r1")
    hours = [0, 1, 2]
    for hour in hours:
        world.archive(hour)
    world.produce(*[record(f"late{h}", h + 0.7) for h in hours])
    world.ingest("r2")
    world.change_spec(reopening=Reopening(age_ms=None))
    ctx = world.context()

    class Meanwhile:
        def __getattr__(self, method: str) -> Any:
            if method == "window_pages" and hours:
                published(world, reopen.reopen, hours.pop(0), "late rows", over_budget=True)
            return getattr(ctx.ledger.reads, method)

    report = audit.audit(ctx, Meanwhile(), InProcess())  # type: ignore[arg-type]
    assert report.problems == ()
    assert report.unsettled == ()
    assert hours == []
    world.close()


@pytest.mark.parametrize("seed", range(2))
def test_what_is_wrong_is_named_while_the_pipeline_works(beginning: tuple[Path, Snapshot], seed: int) -> None:
    """A record that no step reads again, and a bit of a row that waits until the end."""
    dice_of_life.seed(f"{os.environ['TIDEGATE_TEST_SEED']}:spoilt:{seed}")
    report = audited(beginning, f"spoilt {seed}", spoil)
    said = {p.what for p in report.problems}
    assert len(said) == 2, said
    assert any("hwm/1 is missing" in words for words in said)
    assert any("landed/1/" in words for words in said)


def spoil(world: World) -> None:
    (world.folder / "lake/readings/_tidegate/hwm/1").unlink()
    last = sorted((world.folder / "lake/readings/_tidegate/landed/1").rglob("*.parquet"))[-1]
    group = pq.ParquetFile(last).metadata.row_group(0)
    column = next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "id")
    content = bytearray(last.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 4] ^= 1
    last.unlink()
    last.write_bytes(bytes(content))
