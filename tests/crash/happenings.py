"""What the world does to a pipeline in the life that every fault is tried in: records, damages, failovers, people."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tests.crash import lakehouse
from tests.crash.scenario import Task
from tests.hooks import Died, Hook, die
from tests.world import TOPIC, World, make_pipeline, record, window
from tidegate.core.base.errors import BatchRefused
from tidegate.core.restore.record import pack
from tidegate.core.spec.pipeline import Column, Completeness, DirtyLimits, Merge
from tidegate.core.window.lateness import DROP, REROUTE, SIDE
from tidegate.workflow.base import records
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.restore import adoption

ASIDE = "aside"
"""A folder of the test's own, for what the world takes away and gives back."""


# ---------------------------------------------------------------- what the world does


def nothing(world: World) -> None:
    pass


def old_records(world: World) -> None:
    """Produced before the pipeline began; only what follows is its own."""
    world.produce(record("old", 0.1))


def first_records(world: World) -> None:
    a0, a1, a2 = record("a0", 0.1), record("a1", 0.5, "b"), record("a2", 0.6, "d")
    world.produce(a0 | {"place": "b"}, a1 | {"place": "c"}, a2 | {"place": "b"}, record("b0", 1.2), b"not json")
    world.produce(record("c0", 2.0), record("d0", 3.5), partition=1)


def another_system_counts(world: World) -> None:
    """And does not know the hour."""
    world.change_spec(completeness=Completeness(source="topic", conn_id="kafka", topic="audit"))


def late_records(world: World) -> None:
    world.change_spec(completeness=None)
    world.produce(record("late", 0.7), record("fine", 1.9))


def merge_two(world: World) -> None:
    """Two files of one partition are small enough to become one."""
    world.change_spec(archive=replace(world.pipeline.archive, merge=Merge(min_files=2)))


def other_columns(world: World) -> None:
    world.change_spec(columns=_other_value(world))


def _other_value(world: World) -> tuple[Column, ...]:
    id_, site, _ = world.pipeline.columns
    return id_, site, Column(name="value", type="int", path="$.other")


def other_sites(world: World) -> None:
    """Of hour 0's partitions two vanish, one gets other rows, one is new."""
    id_, _, value = world.pipeline.columns
    world.change_spec(columns=(id_, Column(name="site", type="string", path="$.place"), value))


def as_at_first(world: World) -> None:
    world.change_spec(columns=make_pipeline(world.location).columns)


def lose_a_file(world: World) -> None:
    if world.pipeline.sink.kind == lakehouse.KIND:
        world.store.delete(lakehouse.a_file(world, 1, "a"))
        return
    folder = world.folder / "lake/readings/date=2013-01-05/hour=01/site=a"
    min(folder.glob("*.parquet")).unlink()


def dirty_records(world: World) -> None:
    as_at_first(world)
    world.change_spec(dirty=DirtyLimits(0, None))
    world.produce(b"not json either", record("e0", 3.7))


def _tolerate(world: World) -> None:
    world.change_spec(dirty=DirtyLimits(None, None))


MEND_SPEC = Task("mend the spec", _tolerate)


def ten_days_later(world: World) -> None:
    """What nobody needs any more has had its time."""
    world.clock.advance(10 * 86_400_000)


def swap_by_directory(world: World) -> None:
    """Hour 1 was healed with other columns than today's: its content changes. Iceberg has one way only."""
    world.change_spec(archive=replace(world.pipeline.archive, swap="directory"))


def by_the_metastore(world: World) -> None:
    """Hour 5 was rebuilt with other sites: one partition comes, another one goes, in one call."""
    if world.pipeline.sink.kind == lakehouse.KIND:
        return
    sink = replace(world.pipeline.sink, metastore_conn_id="metastore_default")
    world.change_spec(sink=sink, archive=replace(world.pipeline.archive, swap="pointer"))


def one_record(world: World) -> None:
    world.produce(record("given up", 3.8))


def records_of_hour_6(world: World) -> None:
    """And one of hour 0, which becomes a row of hour 2."""
    world.change_spec(late_policy=REROUTE)
    world.produce(record("f0", 6.5))
    world.produce(record("f1", 6.6, "b"), record("f2", 0.9, "b"), partition=1)


def landed_and_forgotten(world: World) -> None:
    """The batch is renamed into its place, or recorded where nothing moves, then the ledger's database falls back to
    when it was planned."""
    world.produce(record("g0", 6.7), b"dirty")
    ingest.plan(world.context(), "r7")
    world.close()
    yesterday = world.database.read_bytes()
    ingest.write(world.context(), "r7")
    ctx = world.context()
    ctx.storage = Hook(ctx.storage, after={"rename_no_replace" if ctx.storage.renames else "write_new": die})  # type: ignore[assignment]
    _dies(lambda: ingest.land(ctx, "r7"))
    world.close()
    world.database.write_bytes(yesterday)


def attempt_damaged(world: World) -> None:
    """Somebody takes a file of a sealed attempt away before it lands."""
    world.produce(record("h0", 6.8), record("h1", 6.9, "b"))
    ingest.plan(world.context(), "r8")
    ingest.write(world.context(), "r8")
    tmp = world.context().layout.attempts()
    below = [f.path for f in world.store.list_files(tmp) or () if re.match(r"8\..*/data/.*/site=a/", f.path)]
    _take_away(world, f"{tmp}/{min(below)}")


def landing_damaged(world: World) -> None:
    """A landed file is lost: the hour is blocked until Kafka shows the records, then it is read again."""
    world.kafka.out_of_reach(TOPIC)
    landed = world.context().landed(2)
    world.store.delete(f"{landed}/{min(f.path for f in world.store.list_files(landed) or () if '/hour=02/' in f.path)}")


def ledger_restored(world: World) -> None:
    """A backup of yesterday: a batch and two generations are in storage, of which the ledger has no row.

    A row of the batch was dropped."""
    world.close()
    yesterday = world.database.read_bytes()
    world.change_spec(late_policy=DROP)
    world.produce(record("i0", 7.2), b"dirty again")
    world.produce(record("i1", 1.3), partition=1)
    world.ingest("r9")
    world.archive(3)
    world.change_spec(columns=_other_value(world))
    world.replay(3)
    as_at_first(world)
    world.database.write_bytes(yesterday)


def failed_over_twice(world: World) -> None:
    """The ledger forgot the plan of a batch; another of its id was planned before the first one landed all the same."""
    world.close()
    before = world.database.read_bytes()
    world.produce(record("j0", 7.3))
    ingest.plan(world.context(), "r10")
    ingest.write(world.context(), "r10")
    world.close()
    first = world.database.read_bytes()
    world.database.write_bytes(before)
    world.produce(record("j1", 7.4))
    ingest.plan(world.context(), "r11")
    world.close()
    second = world.database.read_bytes()
    world.database.write_bytes(first)
    ingest.land(world.context(), "r10")
    world.close()
    world.database.write_bytes(second)


def record_of_a_lost_history(world: World) -> None:
    """Storage has a record of a generation that does not hold the late rows which the window has taken up."""
    ctx = world.context()
    first = records.generation_record(ctx, records.publication_marks(ctx, None)[window(1).start_ms, 1])
    number, now_ms = ctx.ledger.windows.get("readings", window(1)).newest + 1, world.clock.now_ms()
    path = ctx.layout.publication_mark(now_ms, first.window.start_ms, number, 1)
    ctx.storage.write_new(path, pack(replace(first, number=number, epoch=1, kind="replay", recorded_ms=now_ms)))
    world.close()


def more_columns(world: World) -> None:
    """The table gets them first; then a window that is rebuilt has them, and so has the next batch."""
    _an_hour_with_a_redriven_row(world)
    more = (Column(name="extra", type="int", path="$.extra"), Column(name="more", type="struct<a:int>", path="$.more"))
    world.change_spec(columns=(*world.pipeline.columns, *more))


def odd_records(world: World) -> None:
    """Dirty by today's columns, and no more by the mended ones: a row of an open hour, one of a closed one."""
    odd = {"value": "many", "other": 5}
    world.change_spec(late_policy=SIDE)
    world.produce(record("k0", 5.5) | odd, record("k1", 1.5) | odd, record("k2", 5.6))
    world.ingest("r12b")
    other_columns(world)


def _an_hour_with_a_redriven_row(world: World) -> None:
    """It is published, then rebuilt from Kafka and from the redriven files."""
    world.archive(5)
    other_sites(world)
    world.replay(5)
    as_at_first(world)


def topic_recreated(world: World) -> None:
    world.kafka.create(TOPIC, 2)
    world.produce(record("n0", 7.0))
    world.produce(record("n1", 7.1), partition=1)


def refused_again(world: World) -> None:
    """Too dirty, and this time it shall land as it is."""
    world.change_spec(dirty=DirtyLimits(0, None))
    world.produce(record("o0", 7.4), b"not json at all", partition=1)
    ingest.plan(world.context(), "r14")
    try:
        ingest.write(world.context(), "r14")
    except BatchRefused:
        return
    raise AssertionError("it should have been refused")


def _release(world: World) -> None:
    ctx = world.context()
    open_batch = ctx.ledger.batches.open("readings")
    refused = open_batch and ctx.ledger.batches.refusal("readings", open_batch.plan.batch_id)
    if open_batch is not None and refused:
        reconcile.release(ctx, open_batch.plan.batch_id, refused.said, "known")


def _dies(step: Callable[[], object]) -> None:
    try:
        step()
    except Died:
        return
    raise AssertionError("it should have died")


def _take_away(world: World, uri: str) -> None:
    aside = world.folder / ASIDE
    aside.mkdir(exist_ok=True)
    for name, content in (("file", world.store.read(uri)), ("where", uri.encode())):
        (aside / name).unlink(missing_ok=True)  # a snapshot may hold it under the same inode
        (aside / name).write_bytes(content)
    world.store.delete(uri)


def _give_back(world: World) -> None:
    """An operator brings back what is away, and clears whatever is blocked, by the reasons that are shown."""
    aside = world.folder / ASIDE
    if (aside / "file").exists():
        where = (aside / "where").read_text().strip('"')  # a life of 0.1.0 has a path there, as JSON
        world.store.write_new(where if "://" in where else f"file://{where}", (aside / "file").read_bytes())
        (aside / "file").unlink()
    world.kafka.within_reach(TOPIC)
    ledger = world.context().ledger
    for block in ledger.pipelines.blocks("readings"):
        kind, _, what = block.subject.partition(" ")
        if kind == "batch":
            ledger.repairs.clear_batch("readings", int(what), block.reason, "given back")  # type: ignore[attr-defined]
        else:
            hour = int(what[9:11])
            ledger.repairs.clear_window("readings", window(hour), block.reason, "given back")  # type: ignore[attr-defined]


REPAIR = Task("repair", _give_back)


def _accept(world: World) -> None:
    ledger, new = world.context().ledger, world.kafka.look(TOPIC).topic_id
    row = ledger.pipelines.row("readings")
    assert row is not None
    if row.accepted_topic_id != new:
        ledger.pipelines.accept_topic("readings", row.accepted_topic_id, new, "on purpose")


def _adopt(world: World) -> None:
    ctx = world.context()
    adoption.adopt(ctx, adoption.survey(ctx), "the ledger was restored")


ADOPT = Task("adopt", _adopt)
RELEASE = Task("release", _release)
ACCEPT = Task("accept the topic", _accept)
