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
from tests.ledger_loss import Past, adopt, lived
from tests.restore.histories import change_columns, first_records, goes_on, waiting
from tests.world import TOPIC, World, record
from tidegate.core.base.errors import StorageAhead, TidegateError
from tidegate.core.batch.refusal import Refusal, RefusalKind
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.batch import ingest
from tidegate.workflow.restore import adoption

EVERY = os.environ.get("TIDEGATE_FAULTS") == "all"
_PORTS = ("batches", "windows")
_CHANGING = {
    "insert_plan", "take", "seal", "land", "mark_side", "begin_close", "finish_close", "built", "begin_swap", "publish",
    "announced", "begin_generation", "discard",
}  # fmt: skip


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


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


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
