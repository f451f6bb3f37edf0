"""Traces against the window protocol: closing, assembling, publishing, replaying, the catalogue."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import pytest

from tests.hooks import Died, Once, die
from tests.mutants.invariants import no_file_is_missed, nothing_is_blocked, readers_see_what_is_in_force
from tests.mutants.names import STOPS, WHOLE, require
from tests.mutants.stage import HOUR, TOPIC, Stage, record, refused, retryable, window
from tidegate.core.base.errors import Alarm, CatalogueUnsure, PathExists, ReplayRefused
from tidegate.core.spec.pipeline import EventTime
from tidegate.workflow.clean import duties
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay

HOUR_0 = "lake/readings/date=2013-01-05/hour=00"


def values_vanish_in_a_replay(stage: Stage) -> None:
    """R2: partitions whose values are no longer in the manifest leave the catalogue."""
    stage.hour_0_published()
    stage.other_sites()
    stage.tried(lambda: stage.replay(0), "replay")
    stage.at_rest()


def the_catalogue_forgets_a_partition(stage: Stage) -> None:
    """Locations are read back before `_SUCCESS`: an answer is not a proof."""
    stage.first_hours()
    stage.ingest("r1")

    def forget(table: str, locations: dict[Any, str]) -> None:
        stage.catalogue.drop_partitions(table, [next(iter(locations))])

    ctx = stage.hooked("catalogue", after={"add_partitions": _First(forget)})
    retryable(lambda: stage.publish_watched(0, ctx))
    stage.tried(lambda: stage.publish_watched(0), "publish")
    stage.at_rest()


class _First:
    """Runs `step` with the call's arguments, at the first call only."""

    def __init__(self, step: Any) -> None:
        self._step, self._done = step, False

    def __call__(self, *args: Any) -> None:
        if not self._done:
            self._done = True
            self._step(*args)


def a_rebuild_dies_half_way(stage: Stage) -> None:
    """R3: a new try assembles into a directory of its own; two tries of one rebuild write different files."""
    stage.hour_0_published()
    stage.other_columns()
    moves: list[str] = []

    def second_move(source: str, _destination: str) -> None:
        if source.endswith(".parquet"):
            moves.append(source)
            if len(moves) == 2:
                die()

    with pytest.raises(Died):
        replay.replay(stage.hooked("storage", before={"rename_no_replace": second_move}), window(0))
    stage.tried(lambda: stage.replay(0), "replay")
    stage.at_rest()


def a_zombie_moves_a_file_up_at_the_last_moment(stage: Stage) -> None:
    """R3: a file moves upward only, so it is looked for in that order. The zombie's move is in flight."""
    stage.first_hours()
    stage.ingest("r1")
    flying: list[tuple[str, str]] = []

    def in_flight(source: str, destination: str) -> None:
        if source.endswith(".parquet"):
            flying.append((source, destination))
            die()

    with pytest.raises(Died):
        archive.publish(stage.hooked("storage", before={"rename_no_replace": in_flight}), window(0))
    source, destination = flying[0]

    def arrives(old: str, _new: str) -> None:
        if old == source and flying:
            flying.clear()
            stage.context().storage.rename_no_replace(source, destination)

    ctx = stage.hooked("storage", before={"rename_no_replace": arrives})
    retryable(lambda: archive.publish(ctx, window(0)))
    nothing_is_blocked(stage)
    no_file_is_missed(stage)
    stage.at_rest()


def a_zombie_goes_on_assembling(stage: Stage) -> None:
    """R3: the epoch is asked for before each move and before an alarm: who lost it stops quietly."""
    stage.first_hours()
    stage.ingest("r1")

    def first_move(source: str, _destination: str) -> None:
        if source.endswith(".parquet"):
            overtaken()

    overtaken = Once(lambda: stage.archive(0))
    retryable(lambda: archive.publish(stage.hooked("storage", before={"rename_no_replace": first_move}), window(0)))
    nothing_is_blocked(stage)
    no_file_is_missed(stage)
    stage.at_rest()


def a_zombie_says_that_it_is_done(stage: Stage) -> None:
    """R3: BUILT belongs to the epoch that holds the files."""
    stage.first_hours()
    stage.ingest("r1")

    def overtaken() -> None:
        with pytest.raises(Died):
            archive.publish(stage.hooked("windows", before={"built": die}), window(0))

    retryable(lambda: archive.publish(stage.hooked("windows", before={"built": Once(overtaken)}), window(0)))
    stage.tried(lambda: stage.archive(0), "archive")
    nothing_is_blocked(stage)
    stage.at_rest()


def a_zombie_assembles_before_its_successor(stage: Stage) -> None:
    """R3: a new try finds what a lower epoch has moved already."""
    stage.first_hours()
    stage.ingest("r1")
    moved: list[str] = []

    def after_first(source: str, _destination: str) -> None:
        if source.endswith(".parquet"):
            moved.append(source)
            die()

    with pytest.raises(Died):
        archive.publish(stage.hooked("storage", after={"rename_no_replace": after_first}), window(0))
    stage.tried(lambda: stage.archive(0), "archive")
    no_file_is_missed(stage)
    stage.at_rest()


def an_alter_arrives_after_the_next_swap(stage: Stage) -> None:
    """R8: while a change to another place is unanswered nobody swaps: it may still be executed."""
    stage.hour_0_published()
    stage.other_columns()
    late: list[tuple[Any, ...]] = []

    def unanswered(*args: Any) -> None:
        late.append(args)
        raise CatalogueUnsure("no answer")

    ctx = stage.hooked("catalogue", before={"set_location": _First(unanswered)})
    retryable(lambda: replay.replay(ctx, window(0)))
    retryable(lambda: stage.replay(0))  # finishes generation 2: to the same place, so nothing stands in its way
    id_, site, value = stage.pipeline.columns
    stage.change_spec(columns=(id_, site, replace(value, path="$.value")))
    for _ in range(3):
        retryable(lambda: stage.replay(0))
    stage.catalogue.set_location(*late[0])
    readers_see_what_is_in_force(stage)
    stage.tried(lambda: stage.replay(0), "replay")
    stage.at_rest()


def a_zombie_alters_after_the_next_swap(stage: Stage) -> None:
    """R8: the generation is read again before each change of the catalogue."""
    stage.hour_0_published()
    stage.other_columns()

    def overtaken() -> None:
        retryable(lambda: stage.replay(0))  # finishes generation 2
        id_, site, value = stage.pipeline.columns
        stage.change_spec(columns=(id_, site, replace(value, path="$.value")))
        retryable(lambda: stage.replay(0))

    def overtaken_change(_table: str, _values: object, location: str) -> None:
        if "Z.2." in location:
            die()

    ctx = stage.hooked("catalogue", after={"examine": Once(overtaken), "set_location": overtaken_change})
    try:
        retryable(lambda: replay.replay(ctx, window(0)))
    except Died:
        pass  # after its change, so that nobody puts it right
    stage.at_rest()


def a_file_is_gone_when_the_hour_is_published(stage: Stage) -> None:
    """What is renamed into the table is compared with the manifest first: `_SUCCESS` stands for a whole hour."""
    stage.first_hours()
    stage.ingest("r1")

    def lose(*_: object) -> None:
        next((stage.folder / "lake/readings/_tidegate/publish").rglob("*.parquet")).unlink()

    ctx = stage.hooked("windows", after={"built": lose})
    refused(lambda: stage.publish_watched(0, ctx), Alarm)
    shown = (stage.folder / HOUR_0 / "_SUCCESS").exists()
    require(not shown, WHOLE, "hour 0 was published without one of its files")


def a_foreign_directory_lies_in_the_way(stage: Stage) -> None:
    """An hour without rows matches no directory that somebody else made: its certificate must have arrived."""
    stage.change_spec(partition_by=("date", "hour"))
    stage.produce(record("x", 5))
    stage.produce(record("y", 5), partition=1)
    stage.ingest("r1")
    foreign = stage.folder / "lake/readings/date=2013-01-05/hour=02/foreign.parquet"
    foreign.parent.mkdir(parents=True)
    waiting = next((stage.folder / "lake/readings/_tidegate/landed/1").rglob("*.parquet"))
    foreign.write_bytes(waiting.read_bytes())
    stopped = refused(lambda: stage.archive(2), Alarm)
    rows = stage.table()
    require(stopped is not None and rows == [], STOPS, f"an hour without rows shows {rows}")


def the_topic_forgets_a_record_before_a_rebuild(stage: Stage) -> None:
    """A rebuild must give the rows that the ledger says the hour has, for each batch and Kafka partition."""
    stage.hour_0_published()
    stage.kafka.compact(TOPIC, 0, 0)
    before = stage.table()
    stage.other_columns()
    stopped = refused(lambda: stage.replay(0), ReplayRefused)
    require(stopped is not None, STOPS, f"hour 0 was {before}, a rebuild without a record made it {stage.table()}")
    stage.at_rest()


def the_topic_is_recreated_before_a_rebuild(stage: Stage) -> None:
    """A rebuild reads the topic that its batches were planned from."""
    stage.hour_0_published()
    old = dict(stage.produced)
    stage.kafka.create(TOPIC, 2)
    stage.produce(record("n0", 0.2), record("n1", 0.6, "b"), record("n2", 1.3), b"not json either")
    stage.produced = old
    stage.lose_a_file()
    stopped = refused(lambda: stage.archive(0), ReplayRefused)
    require(stopped is not None, STOPS, f"hour 0 was rebuilt from the records of another topic: {stage.table()}")


def event_time_changes_before_a_rebuild(stage: Stage) -> None:
    """R1: which rows an hour has was decided by the spec of their plan; today's decides how columns are decoded."""
    stage.produce(record("a0", 0.1), record("a1", 0.2), record("b0", 1.2) | {"other": 0})
    stage.produce(record("d0", 3.5), partition=1)
    stage.ingest("r1")
    stage.archive(0)
    stage.change_spec(event_time=EventTime("$.other"))
    stage.lose_a_file()
    stage.tried(lambda: stage.archive(0), "heal")
    stage.at_rest()


def a_record_moves_before_a_rebuild(stage: Stage) -> None:
    """Gaps are compared as intervals: one record gone and another come would cancel each other out."""
    stage.change_spec(source=replace(stage.pipeline.source, gaps="allow"))
    stage.produce(record("a", 0.1))
    stage.kafka.skip(TOPIC, 0)
    stage.produce(record("b", 0.2), record("c", 0.3))
    stage.produce(record("d", 3.5), partition=1)
    stage.ingest("r1")
    stage.archive(0)
    log = stage.kafka._log(TOPIC, 0)
    log.records[1] = replace(log.records[1], offset=1)
    stage.other_columns()
    stopped = refused(lambda: stage.replay(0), ReplayRefused)
    require(stopped is not None, STOPS, f"a rebuild was published that has other records: {stage.table()}")
    stage.at_rest()


def a_merge_is_not_the_end(stage: Stage) -> None:
    """R3: a task dies after its merge; the next one finds the landed files where they were."""
    run = stage.pipeline.archive
    stage.change_spec(archive=replace(run, merge=replace(run.merge, min_files=2)))
    for name in ("a", "b"):
        stage.produce(record(name, 0.1))
        stage.ingest(name)
    stage.produce(record("c", 2.5))
    stage.produce(record("d", 2.5), partition=1)
    stage.ingest("c")
    with pytest.raises(Died):
        archive.publish(stage.hooked("windows", before={"holds": die}), window(0))
    require(any("merging" in line for line in stage.said), STOPS, "the trace needs a merge")
    stage.at_rest()
    no_file_is_missed(stage)


def _in_flight(stage: Stage) -> tuple[str, str]:
    """A replay whose first rename of the hour was sent by a task that then died."""
    stage.change_spec(archive=replace(stage.pipeline.archive, swap="directory", keep_generations=1))
    stage.hour_0_published()
    stage.other_columns()
    sent: list[tuple[str, str]] = []

    def lost(source: str, destination: str) -> None:
        if source.endswith("/hour=00"):
            sent.append((source, destination))
            die()

    with pytest.raises(Died):
        replay.replay(stage.hooked("storage", before={"rename_no_replace": lost}), window(0))
    return sent[0]


def _arrives(stage: Stage, request: tuple[str, str]) -> None:
    try:
        stage.context().storage.rename_no_replace(*request)
    except PathExists:
        pass


def a_rename_arrives_after_the_hour_was_lost(stage: Stage) -> None:
    """R4: the place to which a request may still rename the hour is taken before another generation comes there."""
    request = _in_flight(stage)
    shutil.rmtree(stage.folder / HOUR_0)
    stage.tried(lambda: stage.replay(0), "replay")
    _arrives(stage, request)
    stage.at_rest()


def a_rename_arrives_after_cleaning(stage: Stage) -> None:
    """R4: of a retired generation the files go, its name stays taken."""
    request = _in_flight(stage)
    stage.tried(lambda: stage.replay(0), "replay")
    stage.at_rest()
    stage.clock.advance(365 * 24 * HOUR)
    stage.tried(lambda: duties.clean(stage.context()), "clean")
    _arrives(stage, request)
    stage.at_rest()
