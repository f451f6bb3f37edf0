"""Traces against the batch protocol: each runs on the real code and on the code without the rule that it names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.clock import FakeClock
from tests.hooks import Died, Once, die
from tests.mutants.invariants import every_record_once, nothing_is_blocked, what_is_sealed_is_there
from tests.mutants.names import FATE, OWN, STOPS, require
from tests.mutants.stage import HOUR, T0, TOPIC, Stage, record, refused, retryable
from tidegate.core.base.errors import Alarm, BatchRefused, DataLoss, NotReady, OutcomeUnknown, TopicRecreated
from tidegate.core.spec.pipeline import EventTime
from tidegate.workflow.base.renames import parent
from tidegate.workflow.batch import ingest


def an_hour_closes_while_a_batch_is_written(stage: Stage) -> None:
    """R1: planned while hour 0 was open, written while it is closing: the row belongs to the hour."""
    stage.first_hours()
    stage.ingest("r1")
    stage.produce(record("in time", 0.9))
    ingest.plan(stage.context(), "r2")
    refused(lambda: stage.archive(0), NotReady)
    stage.run("r2")
    stage.at_rest()
    require((0, 4) in stage.by_window()["00"], FATE, f"it came before hour 0 closed; late: {stage.table('__late')}")


def the_spec_changes_between_two_tries(stage: Stage) -> None:
    """R1: the second try of a batch takes the spec that it was planned with."""
    for i in range(3):
        stage.produce(record(f"a{i}", 0.1) | {"other": T0 + HOUR + i})
    stage.produce(record("d0", 3.5) | {"other": T0 + 4 * HOUR}, partition=1)
    ingest.plan(stage.context(), "r1")
    ctx = stage.hooked("launcher", before={"run": die})
    with pytest.raises(Died):
        ingest.write(ctx, "r1")
    stage.change_spec(event_time=EventTime("$.other"))
    stage.run("r1")
    stage.at_rest()
    require(len(stage.by_window().get("00", [])) == 3, FATE, f"planned for hour 0: {stage.by_window()}")


def a_record_from_the_future_meets_a_later_clock(stage: Stage) -> None:
    """R1: what was dirty by the clock of its plan stays dirty when its hour is rebuilt a day later."""
    stage.clock = FakeClock(T0 + HOUR // 5)
    stage.produce(record("a0", 0.1), record("future", 0.9), record("a1", 0.15))
    stage.ingest("r1")
    stage.clock.advance(100 * HOUR)
    stage.produce(record("d0", 3.5))
    stage.produce(record("d1", 3.5), partition=1)
    stage.ingest("r2")
    stage.archive(0)
    stage.lose_a_file()
    stage.tried(lambda: stage.archive(0), "heal")
    stage.at_rest()
    require(stage.table("__dirty") == [(0, 1)], FATE, f"dirty: {stage.table('__dirty')}")


def an_hour_closes_between_gathering_and_planning(stage: Stage) -> None:
    """R5: a plan that was gathered while hour 0 was open must not commit once it is closed."""
    stage.first_hours()
    stage.ingest("r1")
    stage.produce(record("late", 0.9))
    ctx = stage.hooked("source", before={"look": Once(lambda: stage.archive(0))})
    ingest.plan(ctx, "r2")
    stage.run("r2")
    stage.at_rest()


def an_hour_closes_over_an_open_batch(stage: Stage) -> None:
    """R5: closing waits for the batches that were planned before it."""
    stage.first_hours()
    stage.ingest("r1")
    stage.produce(record("in time", 0.9))
    ingest.plan(stage.context(), "r2")
    refused(lambda: stage.archive(0), NotReady)
    refused(lambda: stage.archive(0), NotReady)
    stage.run("r2")
    stage.at_rest()


def the_topic_is_recreated_under_the_job(stage: Stage) -> None:
    """R6: what was read from a recreated topic is not sealed as the old topic's."""
    stage.produce(record("old", 0.1), record("older", 0.2))
    ingest.plan(stage.context(), "r1")
    old = stage.topic_id

    def recreate(*_: object) -> None:
        stage.kafka.create(TOPIC, 2)
        stage.produce(record("new", 0.3), record("newer", 0.4))

    real, asked = stage.kafka.reader, Once(recreate, at=2)  # the job asks for the id once before it reads

    def reader(*args: object) -> object:
        asked()
        return real(*args)  # type: ignore[arg-type]

    stage.kafka.reader = reader  # type: ignore[method-assign, assignment]
    refused(lambda: ingest.write(stage.context(), "r1"), TopicRecreated)
    state = stage.context().ledger.batches.get("readings", 1).state
    require(state != "SEALED", STOPS, f"records of {stage.topic_id} are sealed as offsets of {old}")


def a_file_is_gone_when_the_attempt_is_sealed(stage: Stage) -> None:
    """R6: a receipt is believed only with its files in the listing."""
    stage.first_hours()
    ingest.plan(stage.context(), "r1")

    def lose(*_: object) -> None:
        next((stage.folder / "lake/readings/_tidegate/tmp").rglob("*.parquet")).unlink()

    retryable(lambda: ingest.write(stage.hooked("launcher", after={"run": lose}), "r1"))
    what_is_sealed_is_there(stage)
    stage.run("r1")
    stage.at_rest()


def a_zombie_seals_what_was_cleaned_away(stage: Stage) -> None:
    """An attempt is overtaken and cleaned while its task is about to seal it: the epoch is compared."""
    stage.first_hours()
    ingest.plan(stage.context(), "r1")

    def overtaken(*_: object) -> None:
        ctx = stage.context()
        batch = ctx.ledger.batches.get("readings", 1)
        ctx.ledger.batches.take(batch, "successor")  # type: ignore[arg-type]
        ctx.storage.delete(ctx.layout.attempt(1, batch.epoch, batch.nonce))  # type: ignore[union-attr]

    retryable(lambda: ingest.write(stage.hooked("batches", before={"seal": Once(overtaken)}), "r1"))
    what_is_sealed_is_there(stage)
    stage.run("r1")
    stage.at_rest()


def another_task_takes_the_batch_at_once(stage: Stage) -> None:
    """R9: a directory is named by what the comparison returned; whoever reads the row later finds his successor's."""
    stage.first_hours()
    ingest.plan(stage.context(), "r1")
    written: list[str] = []

    def take(*_: object) -> None:
        ctx = stage.context()
        batch = ctx.ledger.batches.get("readings", 1)
        successor = ctx.ledger.batches.take(batch, "successor")  # type: ignore[arg-type]
        written.append(ctx.layout.attempt(1, successor.epoch, successor.nonce))

    def note(path: str) -> None:
        name = path.rsplit("/", 1)[1].removesuffix(".json")
        require(not any(d.endswith(f"/{name}") for d in written), OWN, f"two tasks write to {name}")

    ctx = stage.hooked("batches", after={"take": Once(take)})
    ctx.launcher = stage.hooked("launcher", before={"run": note}).launcher
    retryable(lambda: ingest.write(ctx, "r1"))
    stage.run("r1")
    stage.at_rest()


def a_file_is_gone_when_the_batch_lands(stage: Stage) -> None:
    """R10: a source that is incomplete is not renamed."""
    stage.first_hours()
    ingest.plan(stage.context(), "r1")
    ingest.write(stage.context(), "r1")
    next((stage.folder / "lake/readings/_tidegate/tmp").rglob("*.parquet")).unlink()
    stopped = refused(lambda: ingest.land(stage.context(), "r1"), Alarm)
    state = stage.context().ledger.batches.get("readings", 1).state
    require(stopped is not None and state == "SEALED", STOPS, f"batch 1 without one of its files is {state}")


def a_rename_is_executed_between_two_looks(stage: Stage) -> None:
    """R10: whoever looks at the destination first, then at the source, finds neither, and cries for help."""
    stage.first_hours()
    ingest.plan(stage.context(), "r1")
    ingest.write(stage.context(), "r1")
    late: list[tuple[str, str]] = []

    def lost(source: str, destination: str) -> None:
        late.append((source, destination))
        die()

    with pytest.raises(Died):
        ingest.land(stage.hooked("storage", before={"rename_no_replace": lost}), "r1")
    (source, destination) = late[0]
    looks: list[str] = []

    def execute(directory: str) -> None:
        if directory in (source, destination):
            looks.append(directory)
            if len(looks) == 1:
                stage.context().storage.rename_no_replace(source, destination)

    stage.tried(lambda: ingest.land(stage.hooked("storage", after={"list_files": execute}), "r1"), "land")
    nothing_is_blocked(stage)
    stage.at_rest()


def the_reply_of_a_rename_is_lost(stage: Stage) -> None:
    """R10: an unknown rename is looked at, not taken for done. Here it was not executed."""
    stage.first_hours()
    ingest.plan(stage.context(), "r1")
    ingest.write(stage.context(), "r1")

    def unknown() -> None:
        raise OutcomeUnknown("no reply")

    ctx = stage.hooked("storage", before={"rename_no_replace": Once(unknown)})
    retryable(lambda: ingest.land(ctx, "r1"))
    stage.tried(lambda: ingest.land(stage.context(), "r1"), "land")
    what_is_sealed_is_there(stage)
    stage.at_rest()


def retention_passes_before_planning(stage: Stage) -> None:
    """Offsets that nobody can read any more stop the pipeline, or stand in the ledger: never skipped in silence."""
    stage.first_hours()
    stage.ingest("r1")
    stage.produce(*[record(str(i), 3.6) for i in range(5)])
    stage.kafka.trim(TOPIC, 0, 7)
    stopped = refused(lambda: stage.ingest("r2"), DataLoss)
    if stopped is None:
        stage.settle()
        every_record_once(stage, stage.produced)
    source = stage.pipeline.source
    stage.change_spec(source=replace(source, on_data_loss="record"))
    stage.at_rest()


def retention_passes_under_the_job(stage: Stage) -> None:
    """`auto.offset.reset`: a planned offset that is gone is an error, not a place to go on from."""
    from tests.mutants.consumer import fake_consumers

    stage.change_spec(source=replace(stage.pipeline.source, gaps="allow"))
    stage.produce(*[record(str(i), 0.1) for i in range(6)])
    ingest.plan(stage.context(), "r1")
    with fake_consumers(stage, before_reading=lambda: stage.kafka.trim(TOPIC, 0, 3)):
        stopped = refused(lambda: ingest.write(stage.context(), "r1"), BatchRefused)
    if stopped is None:
        ingest.land(stage.context(), "r1")
        every_record_once(stage, stage.produced)


def a_transaction_is_open_when_an_hour_ends(stage: Stage) -> None:
    """A partition with an open transaction is not drained: its records are still to come."""
    stage.change_spec(source=replace(stage.pipeline.source, gaps="allow"))
    stage.produce(record("a", 0.1), record("b", 4.0))
    stage.kafka.begin(TOPIC, 1)
    stage.produce(record("undecided", 0.2), partition=1)
    stage.ingest("r1")
    refused(lambda: stage.archive(0), NotReady)
    stage.kafka.commit(TOPIC, 1)
    stage.at_rest()
    require(stage.table("__late") == [], FATE, "a record that was in the log before its hour closed is late")


def the_process_ends_before_late_rows_are_moved(stage: Stage) -> None:
    """The flag that late rows are in their table is set after they are."""
    stage.hour_0_published()
    stage.produce(record("late", 0.7))
    ingest.plan(stage.context(), "r2")
    ingest.write(stage.context(), "r2")

    def at_side(source: str, _destination: str) -> None:
        if "/late" in source:
            die()

    with pytest.raises(Died):
        ingest.land(stage.hooked("storage", before={"rename_no_replace": at_side}), "r2")
    stage.at_rest()


def the_process_ends_before_late_rows_are_registered(stage: Stage) -> None:
    """The duty to register late rows ends when the catalogue has them."""
    stage.hour_0_published()
    stage.produce(record("late", 0.7))
    ingest.plan(stage.context(), "r2")
    ingest.write(stage.context(), "r2")
    with pytest.raises(Died):
        ingest.land(stage.hooked("catalogue", before={"add_partitions": die}), "r2")
    stage.at_rest()


def a_duplicate_spark_task_still_writes(stage: Stage) -> None:
    """A directory that becomes part of a table is never one that a job wrote to."""
    stage.hour_0_published()
    stage.produce(record("late", 0.7))
    ingest.plan(stage.context(), "r2")
    ingest.write(stage.context(), "r2")

    def duplicate(*_: object) -> None:
        for folder in ("tmp", "landed", "late"):
            for file in (stage.folder / f"lake/readings/_tidegate/{folder}").rglob("*.parquet"):
                written_by_job = folder != "late" or "_batch=2" in str(file)
                if "late/" in str(file) and written_by_job and _same_inode_dir(stage, file):
                    (file.parent / f"zombie-{file.name}").write_bytes(file.read_bytes())

    with pytest.raises(Died):
        ingest.land(stage.hooked("batches", after={"land": die}), "r2")
    stage.attempts = _directories(stage, "landed/2/late")
    stage.run("r2")
    duplicate()
    stage.at_rest()


def _directories(stage: Stage, below: str) -> list[str]:
    """Inodes of the directories that a job of batch 2 wrote late rows to, and could still write to."""
    return [str(p.stat().st_ino) for p in (stage.folder / "lake/readings/_tidegate" / below).rglob("*") if p.is_dir()]


def _same_inode_dir(stage: Stage, file: object) -> bool:
    return str(file.parent.stat().st_ino) in stage.attempts  # type: ignore[attr-defined]


def the_process_ends_between_mark_and_rename(stage: Stage) -> None:
    """The high-water mark says that a batch has moved: it is written after the rename."""
    stage.first_hours()
    ingest.plan(stage.context(), "r1")
    ingest.write(stage.context(), "r1")

    def at_landing(_source: str, destination: str) -> None:
        if "/landed" in parent(destination):
            die()

    with pytest.raises(Died):
        ingest.land(stage.hooked("storage", before={"rename_no_replace": at_landing}), "r1")
    refused(lambda: ingest.land(stage.context(), "r1"), Alarm)
    what_is_sealed_is_there(stage)
    stage.at_rest()


def two_schedulers_plan_at_once(stage: Stage) -> None:
    """The plan commits on the version that it read: the same offsets are never in two batches."""
    stage.first_hours()
    ctx = stage.hooked("source", after={"look": Once(lambda: stage.ingest("other"))})
    retryable(lambda: ingest.plan(ctx, "r1"))
    stage.run("r1")
    stage.at_rest()
