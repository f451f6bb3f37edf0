"""A ledger that lost commits: restored from a backup, failed over, or gone altogether (R11).

Storage goes on from where it was, the database goes back to what it was after each of its commits in turn. Whoever
notices says so, `repair --adopt` brings the rows back, the next runs go on, and every record is there exactly once.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.audit.audits import in_process
from tests.ledger_loss import Past, adopt, go_on, lived
from tests.world import TOPIC, World, record, window
from tidegate.core.base.errors import StillClosing, StorageAhead, TidegateError
from tidegate.core.batch.refusal import Refusal, RefusalKind
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.restore import adoption

EVERY = os.environ.get("TIDEGATE_FAULTS") == "all"
_PORTS = ("batches", "windows")
_CHANGING = {
    "insert_plan", "take", "seal", "land", "mark_side", "begin_close", "finish_close", "built", "begin_swap", "publish",
    "announced", "begin_generation", "discard",
}  # fmt: skip


def first_records(world: World) -> None:
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
    world.produce(record("c0", 2.0), record("d0", 3.5), partition=1)


def history(world: World) -> None:
    """Two batches, late and dirty rows, two hours, a replay that changes the content and a healed file."""
    first_records(world)
    world.ingest("r1")
    world.archive(0)
    world.produce(record("late", 0.7), record("fine", 1.9))
    world.ingest("r2")
    world.archive(1)
    change_columns(world)
    world.replay(0)
    lost = world.folder / "lake/readings/date=2013-01-05/hour=01/site=a"
    min(lost.glob("*.parquet")).unlink()
    world.archive(1)


def change_columns(world: World) -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def goes_on(world: World) -> None:
    """The next runs, with a batch of new records; an operator adopts where a run says that it is needed."""
    world.produce(record("next", 4.2), record("next", 4.3), partition=1)
    tasks: list[Callable[[], object]] = [
        lambda: world.ingest("r8"), lambda: world.ingest("r9"), lambda: world.archive(0), lambda: world.archive(1),
        lambda: world.archive(2),
    ]  # fmt: skip
    go_on(world, tasks)


def everything_once(world: World) -> None:
    ends = {p: o.high_watermark for p, o in world.kafka.look(TOPIC).partitions.items()}
    expected = sorted((p, offset) for p, end in ends.items() for offset in range(end))
    found = world.table() + world.table("__late") + world.table("__dirty") + waiting(world)
    assert sorted(found) == expected
    assert world.table("__late") == [(0, 4)]
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process)
    world.close()
    assert report.problems == ()


def waiting(world: World) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    for folder in sorted((world.folder / "lake/readings/_tidegate/landed").iterdir()):
        rows += world.rows_at(str(folder / "data"))
    return rows


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    with lived(tmp_path_factory.mktemp("lived"), history, dict.fromkeys(_PORTS, _CHANGING)) as past:
        yield past


def test_the_history_has_commits_of_every_kind(past: Past) -> None:
    assert {name.split(".")[1] for name in past.names} == _CHANGING - {"discard"}


@pytest.mark.parametrize("part", range(4))
def test_a_ledger_that_goes_back_to_any_of_its_commits_is_rebuilt(past: Past, part: int) -> None:
    def follow(world: World) -> None:
        goes_on(world)
        everything_once(world)

    past.holds_from(past.drawn()[part::4], follow)


def test_a_ledger_that_is_gone_is_rebuilt_from_nothing(past: Past) -> None:
    world = past.again()
    empty = World(_made(world.folder.parent / "elsewhere"))
    shutil.copy(empty.database, world.database)
    with pytest.raises(StorageAhead, match="next batch is 1"):
        world.ingest("r9")
    world.close()
    done = adopt(world)
    assert [line for line in done if line.startswith("adopted: batch")] == [
        "adopted: batch 1 (6 rows)",
        "adopted: batch 2 (2 rows)",
    ]
    goes_on(world)
    everything_once(world)
    world.close()


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


# ---------------------------------------------------------------- a failover in the middle


class Forgets:
    """The n-th commit is answered and then forgotten, as by a database that fails over to a lagging standby."""

    def __init__(self, at: int) -> None:
        self.at, self.count, self.forgot = at, 0, ""
        self.world: World | None = None

    def wrap(self, name: str, port: Any) -> Any:
        return _Forgetting(self, name, port) if name in _PORTS else port


class _Forgetting:
    def __init__(self, forgets: Forgets, name: str, port: Any) -> None:
        self._forgets, self._name, self._port = forgets, name, port

    def __getattr__(self, method: str) -> Any:
        call, forgets = getattr(self._port, method), self._forgets
        if method not in _CHANGING:
            return call

        def forgotten(*args: Any, **kwargs: Any) -> Any:
            forgets.count += 1
            if forgets.count != forgets.at + 1 or forgets.world is None:
                return call(*args, **kwargs)
            before = forgets.world.database.read_bytes()
            result = call(*args, **kwargs)
            self._port._store.engine.dispose()
            forgets.world.database.write_bytes(before)
            forgets.forgot = f"{self._name}.{method}"
            return result

        return forgotten


def as_scheduled(world: World) -> None:
    """The history, each task tried again as Airflow would; a human comes only where storage is ahead."""

    def done(task: Callable[[], object]) -> None:
        for _ in range(5):
            try:
                task()
                return
            except StorageAhead:
                world.close()
                adopt(world)
            except TidegateError as e:
                if not e.retry:
                    raise AssertionError(f"a human would be needed: {e}") from e
            finally:
                world.close()
                world.clock.advance(600_001)
        raise AssertionError("not done after 5 tries")

    def ingest_run(run: str) -> None:
        for name in (run, f"{run}, the next one"):  # a forgotten plan leaves its run without a batch
            for step in (ingest.plan, ingest.write, ingest.land):
                done(lambda step=step, name=name: step(world.context(), name))

    first_records(world)
    ingest_run("r1")
    done(lambda: world.archive(0))
    world.produce(record("late", 0.7), record("fine", 1.9))
    ingest_run("r2")
    change_columns(world)
    done(lambda: world.replay(0))


def test_any_commit_that_is_forgotten_while_tasks_go_on_heals(tmp_path: Path, rng: random.Random) -> None:
    """The task that was told "done" goes on as if it were; nothing is lost or read into the table twice. Of the commits
    a third is drawn; `make test-faults` forgets each."""
    forgotten: list[str] = []
    step = 1 if EVERY else 3
    for n in range(rng.randrange(step), 200, step):
        forgets = Forgets(n)
        (tmp_path / str(n)).mkdir()
        world = World(tmp_path / str(n), wrap=forgets.wrap)
        forgets.world = world
        try:
            as_scheduled(world)
            if not forgets.forgot:
                break
            forgotten.append(forgets.forgot)
            everything_once(world)
        except Exception as e:
            raise AssertionError(f"forgot commit {n} ({forgets.forgot}): {e}\nsaid: {world.said[-8:]}") from e
        finally:
            world.close()
            shutil.rmtree(world.folder)
    known = {f"batches.{m}" for m in ("insert_plan", "take", "seal", "land", "mark_side")} | {
        f"windows.{m}" for m in _CHANGING - {"insert_plan", "seal", "land", "mark_side", "discard"}
    }
    assert set(forgotten) == known if EVERY else set(forgotten) <= known and len(forgotten) > 3


# ---------------------------------------------------------------- who notices, and what is refused


def test_kafkas_group_tells_a_ledger_that_it_forgot(world: World) -> None:
    """Storage was restored too, so only the group is left to know."""
    first_records(world)
    before = shutil.copytree(world.folder, world.folder.parent / "backup")
    world.ingest("r1")
    world.close()
    shutil.rmtree(world.folder)
    shutil.copytree(before, world.folder)
    ctx = world.context()
    ctx.ledger.pipelines.accept_topic("readings", None, "id-1", "as it was")
    with pytest.raises(StorageAhead, match="group tidegate-readings is at offset 4 of partition 0"):
        ingest.plan(world.context(), "r2")


def test_another_ledgers_group_is_none_of_ours(world: World, tmp_path: Path) -> None:
    first_records(world)
    ctx = world.context()
    world.kafka.remember("tidegate-readings", TOPIC, {0: 3}, "readings@1 id-1")
    ctx.ledger.pipelines.accept_topic("readings", None, "id-1", "as it was")
    assert ingest.plan(ctx, "r1") == 1


def test_a_record_of_another_history_is_refused(world: World) -> None:
    """Both ledgers read on from the same backup: nobody but a human can say which one is right."""
    first_records(world)
    world.ingest("r1")
    backup = world.database.read_bytes()
    world.produce(record("x", 3.6))
    world.ingest("r2")
    world.close()
    world.database.write_bytes(backup)
    ctx = world.context()
    found = adoption.survey(ctx)
    (lost,) = found.batches
    shifted = replace(lost, plan=_starting_at(lost.plan, lost.plan.partitions[0].start + 1))
    with pytest.raises(StorageAhead, match="different histories"):
        adoption.adopt(ctx, adoption.Survey(None, (shifted,), ()), "why")


def _starting_at(plan: Any, start: int) -> Any:
    first, *rest = plan.partitions
    return replace(plan, partitions=(replace(first, start=start, end=start + 1), *rest))


def test_a_task_of_the_lost_history_cannot_seal_its_epoch_again(world: World) -> None:
    """Epochs count anew in a ledger that lost commits; the nonce tells them apart."""
    first_records(world)
    ingest.plan(world.context(), "r1")
    planned = world.database.read_bytes()
    zombie = world.context()
    taken = zombie.ledger.batches.take(zombie.ledger.batches.open("readings"), "lost")
    world.close()
    world.database.write_bytes(planned)
    ctx = world.context()
    mine = ctx.ledger.batches.take(ctx.ledger.batches.open("readings"), "mine")
    assert mine.epoch == taken.epoch
    with pytest.raises(TidegateError, match="moved on"):
        ctx.ledger.batches.refuse(taken, Refusal(kind=RefusalKind.JOB, said="never"))


def test_a_batch_that_a_task_of_the_lost_history_has_landed_gives_way_to_it(world: World) -> None:
    """Two histories of one id: the one whose rows have landed and are recorded stays."""
    first_records(world)
    ingest.plan(world.context(), "r1")
    ingest.write(world.context(), "r1")
    world.close()
    lost = world.database.read_bytes()
    world.database.write_bytes(_fresh(world).read_bytes())
    world.produce(record("more", 3.6))
    ingest.plan(world.context(), "r2")
    ingest.write(world.context(), "r2")
    world.close()
    mine = world.database.read_bytes()
    world.database.write_bytes(lost)
    ingest.land(world.context(), "r1")  # the zombie: its land is known to storage only
    world.close()
    world.database.write_bytes(mine)
    world.kafka.groups.clear()
    with pytest.raises(StorageAhead, match="by an attempt that the ledger does not know"):
        ingest.land(world.context(), "r2")
    assert adopt(world)[0] == "withdrawn: batch 1 as the ledger had it (SEALED)"
    goes_on(world)
    table = world.table() + world.table("__dirty") + waiting(world)
    assert sorted(table) == [(0, o) for o in range(5)] + [(1, o) for o in range(4)]


def _fresh(world: World) -> Path:
    return World(_made(world.folder.parent / f"{world.folder.name}-fresh")).database


def test_a_damaged_record_is_named(world: World) -> None:
    first_records(world)
    world.ingest("r1")
    (world.folder / "lake/readings/_tidegate/hwm/2").write_bytes(b"\x1f\x8bgarbage")
    with pytest.raises(StorageAhead, match="hwm/2 cannot be read"):
        adoption.survey(world.context())


def test_a_record_of_a_newer_release_is_whole(world: World) -> None:
    """This host has not been upgraded yet: nothing is to be restored."""
    first_records(world)
    world.ingest("r1")
    newer = json.loads(gzip.decompress((world.folder / "lake/readings/_tidegate/hwm/1").read_bytes())) | {"more": 1}
    (world.folder / "lake/readings/_tidegate/hwm/2").write_bytes(gzip.compress(json.dumps(newer).encode()))
    with pytest.raises(StorageAhead, match=r"hwm/2 cannot be read: .*unknown \['more'\]: a newer release") as refused:
        adoption.survey(world.context())
    assert refused.value.advice.startswith("finish the upgrade")


def test_an_audit_tells_of_a_publication_that_the_ledger_forgot(world: World) -> None:
    first_records(world)
    world.ingest("r1")
    backup = world.database.read_bytes()
    world.archive(0)
    world.database.write_bytes(backup)
    ctx = world.context()
    problems = audit(ctx, ctx.ledger.reads, in_process).problems
    assert any("records generation 1, which the ledger does not know" in p.what for p in problems)
    assert all("repair readings --adopt" in p.advice for p in problems if p.subject.startswith("window"))


def test_what_landed_but_was_never_recorded_is_read_again(world: World) -> None:
    """The task died between its rename and the record, and the ledger forgot the batch altogether."""
    first_records(world)
    world.ingest("r1")
    backup = world.database.read_bytes()
    world.produce(record("x", 3.6))
    world.ingest("r2")
    world.close()
    world.database.write_bytes(backup)
    (world.folder / "lake/readings/_tidegate/hwm/2").unlink()
    world.kafka.groups.clear()
    with pytest.raises(StorageAhead, match="landed/2 exists"):
        world.ingest("r3")
    assert "never counted by any ledger" in adopt(world)[0]
    assert world.ingest("r3") == 2
    goes_on(world)


# ---------------------------------------------------------------- given up, though it has landed


def given_up(world: World, run: str = "r1", meanwhile: Callable[[], object] = lambda: None) -> None:
    """A ledger that has forgotten all but the plan of the batch, and gives it up before anything looks at storage.

    `meanwhile`: what happens after the plan, and is not forgotten."""
    ingest.plan(world.context(), run)
    meanwhile()
    world.close()
    planned = world.database.read_bytes()
    ingest.write(world.context(), run)
    ingest.land(world.context(), run)
    world.close()
    world.database.write_bytes(planned)
    ledger = world.context().ledger
    batch = ledger.batches.open("readings")
    assert batch is not None
    ledger.batches.abandon(batch, "a person was too fast")
    world.close()


def test_a_batch_that_was_given_up_comes_back_as_it_has_landed(world: World) -> None:
    first_records(world)
    given_up(world)
    ctx = world.context()
    ctx.ledger.totals.advance("readings")
    assert ctx.ledger.batches.planning_view("readings").planned_ends == {0: 4, 1: 2}
    with pytest.raises(StorageAhead, match=r"(?s)batch 1 is ABANDONED in the ledger.*repair readings --adopt --why"):
        ingest.plan(world.context(), "r2")
    assert adopt(world) == ["withdrawn: batch 1 as the ledger had it (ABANDONED)", "adopted: batch 1 (6 rows)"]
    assert adoption.survey(world.context()).nothing
    everything_goes_on(world)


def everything_goes_on(world: World) -> None:
    goes_on(world)
    table = world.table() + world.table("__dirty") + waiting(world)
    ends = {p: o.high_watermark for p, o in world.kafka.look(TOPIC).partitions.items()}
    assert sorted(table) == [(p, o) for p, end in sorted(ends.items()) for o in range(end)]
    ctx = world.context()
    ctx.ledger.totals.advance("readings")
    report = audit(ctx, ctx.ledger.reads, in_process)
    assert (report.problems, report.balanced) == ((), True)


@pytest.mark.parametrize("state", ["OPEN", "CLOSING"])
def test_no_hour_closes_without_the_rows_of_a_batch_that_was_given_up_but_has_landed(world: World, state: str) -> None:
    first_records(world)
    world.ingest("r1")
    world.produce(record("late", 0.7), record("later", 4.2))

    def closing() -> None:
        with pytest.raises(StillClosing):
            world.archive(0)

    given_up(world, "r2", closing if state == "CLOSING" else lambda: None)
    for _ in range(2):
        with pytest.raises(StorageAhead, match="batch 2 is ABANDONED in the ledger"):
            world.archive(0)
        world.close()
    assert world.context().ledger.windows.get("readings", window(0)).state == state
    assert adopt(world)[0] == "withdrawn: batch 2 as the ledger had it (ABANDONED)"
    everything_goes_on(world)
    assert (0, 4) in world.table(), "it came in time"


def test_a_batch_that_was_given_up_for_good_is_left_as_it_is(world: World) -> None:
    first_records(world)
    ingest.plan(world.context(), "r1")
    reconcile.abandon(world.context(), 1, "it is of no use", force=True)
    assert adoption.survey(world.context()).nothing
    world.produce(record("next", 4.2))
    assert world.ingest("r2") == 2


def test_a_batch_that_is_given_up_during_an_adoption_is_taken_by_the_next(world: World) -> None:
    first_records(world)
    ingest.plan(world.context(), "r1")
    planned = world.database.read_bytes()
    world.ingest("r1")
    world.database.write_bytes(planned)
    ctx = world.context()
    found = adoption.survey(ctx)
    batch = ctx.ledger.batches.open("readings")
    assert batch is not None
    ctx.ledger.batches.abandon(batch, "meanwhile")
    with pytest.raises(StorageAhead, match=r"(?s)given up in the ledger.*run the same command again"):
        adoption.adopt(ctx, found, "why")
    assert adopt(world)[-1] == "adopted: batch 1 (6 rows)"
    everything_goes_on(world)


def test_an_adoption_that_dies_after_the_withdrawal_goes_on(world: World) -> None:
    first_records(world)
    given_up(world)
    ctx = world.context()
    found = adoption.survey(ctx)
    assert found.withdraw is not None
    ctx.ledger.recovery.withdraw(found.withdraw, "why")
    world.close()
    assert adopt(world) == ["adopted: batch 1 (6 rows)"]
    everything_goes_on(world)
