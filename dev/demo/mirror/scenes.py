"""Scenes of the demo of a mirror, one after the other."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dev.demo.driver_kill import MERGE, Killed, kill_next_driver
from dev.demo.mirror import check, orders
from dev.demo.mirror.connect import Connect
from dev.demo.mirror.mariadb import MariaDB
from dev.demo.mirror.orders import Shop
from dev.demo.world import DemoFailed, Stage, wait_until
from dev.stack.info import StackInfo
from dev.stack.postgres import ICEBERG
from tidegate.core.copy.rounds import ChunkState

NAME, TABLE, TOPIC, PARTITIONS = "orders", "lake.orders", "shop.orders", 4
INGEST, APPLY, COPY = f"{NAME}.ingest", f"{NAME}.apply", f"{NAME}.copy"
FIRST, CHANGES, MORE = 1_000_000, 200_000, 5_000
_PIECE, _TELL = 10_000, 50_000
_STATEMENTS = 50  # that fill the tables, at once
_SMALL, _PAUSE_S = 200, 0.1  # changes beside the copy, as a shop has them: a piece, and some rest
_MOST_INGESTS = 5  # runs that a drained topic may need beside those of its landings
_EVENTS_S, _BATCHES_S, _MERGE_S, _COPY_S = 300.0, 900.0, 300.0, 600.0


@dataclass(kw_only=True)
class World(Stage):
    """Everything that the scenes work with. `ingests`: runs that they asked for."""

    info: StackInfo
    mariadb: MariaDB
    connect: Connect
    shop: Shop
    pipelines: Path
    workdir: Path
    ingests: int = 0


# ---------------------------------------------------------------- the database and its events


def begin(world: World) -> None:
    """Tables with orders, and a connector that reads none of them, but what happens from now on."""
    world.mariadb.run(orders.CREATE)
    filling = world.shop.fill(FIRST)
    while piece := "".join(islice(filling, _STATEMENTS)):
        world.mariadb.run(piece)
    world.out.line(f"{FIRST:,} orders are in the tables {' and '.join(orders.TABLES)}")
    world.connect.start()

    def heard() -> bool:
        """One more order: those of before the connector has found where it begins are in no topic."""
        world.mariadb.run("".join(shard.insert(1) for shard in world.shop.shards))
        return sum(_ends(world).values()) > 0

    wait_until(heard, _EVENTS_S, lambda: f"the topic {TOPIC} has no event")
    world.out.line(f"none of them is in the topic {TOPIC}, which has the changes of both tables from now on")


def change(world: World, first: int, last: int) -> None:
    """The changes `first` to `last`, in transactions of up to forty rows."""
    piece: list[str] = []
    since = done = first
    for sql, rows in world.shop.changes(last - first):
        piece.append(sql)
        done += rows
        if done - since >= _PIECE or done == last:
            world.mariadb.run("".join(piece))
            world.say_landed(NAME)
            if done // _TELL > since // _TELL:
                sent = sum(_ends(world).values())
                world.out.line(f"{done:,} changes made; {sent:,} records in the topic")
            piece, since = [], done


def alter(world: World) -> None:
    """Both tables of the source get a column, while their events are on their way."""
    for statement in world.shop.alter():
        world.out.line(f"> {statement}")
        world.mariadb.run(statement)


def kill_connect(world: World) -> None:
    """A connector that is killed sends again what it had not noted as sent."""
    pid = world.connect.kill()
    world.connect.start()
    world.out.line(f"killed Kafka Connect (process {pid}) and started it again: it sends events twice")


def finish(world: World, customer: str) -> None:
    """The last orders, one at least in each Kafka partition; return when the topic ends with them."""
    world.mariadb.run(world.shop.last(customer))
    wait_until(
        lambda: _all_sent(world, customer), _EVENTS_S, lambda: f"the topic ends at {_ends(world)}, not with {customer}"
    )  # fmt: skip
    counts = world.mariadb.run("".join(f"SELECT count(*) FROM {table};" for table in orders.TABLES)).split()
    left = sum(map(int, counts))
    world.out.line(f"the topic is complete: {sum(_ends(world).values()):,} records; {left:,} orders are left")


def _all_sent(world: World, customer: str) -> bool:
    ends = _ends(world)
    last = [_record(world, partition, end - 1) for partition, end in ends.items() if end]
    return len(last) == PARTITIONS and all(((one or {}).get("after") or {}).get("customer") == customer for one in last)


def _consumer(world: World) -> Any:
    from confluent_kafka import Consumer

    server = world.info.kafka_bootstrap
    return Consumer({"bootstrap.servers": server, "group.id": "demo", "enable.auto.commit": False, "log_level": 2})


def _ends(world: World) -> dict[int, int]:
    """The next offset of each partition; none before there is a topic."""
    from confluent_kafka import KafkaException, TopicPartition

    consumer = _consumer(world)
    try:
        asked = {p: TopicPartition(TOPIC, p) for p in range(PARTITIONS)}
        return {p: consumer.get_watermark_offsets(one, timeout=10)[1] for p, one in asked.items()}
    except KafkaException:
        return {}
    finally:
        consumer.close()


def _record(world: World, partition: int, offset: int) -> dict[str, Any] | None:
    from confluent_kafka import TopicPartition

    consumer = _consumer(world)
    try:
        consumer.assign([TopicPartition(TOPIC, partition, offset)])
        found = consumer.poll(10)
        value = None if found is None or found.error() or not found.value() else json.loads(found.value())
        return value if value is None else value.get("payload", value)
    finally:
        consumer.close()


# ---------------------------------------------------------------- batches and merges


def wait_for_airflow(world: World) -> None:
    """Until the scheduler has parsed the pipeline's DAGs."""
    world.wait_for(INGEST, COPY, APPLY)


def unpause(world: World) -> None:
    """The DAGs begin: a landing triggers the merge, and a run that leaves a backlog the next one."""
    for dag in (APPLY, INGEST, COPY):
        world.airflow.pause(dag, False)
    _ingest(world)


def _ingest(world: World) -> None:
    world.ingests += 1
    world.airflow.trigger(INGEST, f"demo_{world.ingests}")


def copy(world: World, first: int, last: int) -> None:
    """The rows that were there before are read in chunks, while the changes `first` to `last` are made."""

    def began() -> bool:
        told = world.ledger.applies.told(NAME)
        return told is not None and told.begins is not None

    wait_until(began, _MERGE_S, lambda: f"{APPLY} has merged nothing; runs: {world.airflow.runs(APPLY)}")
    world.airflow.trigger(COPY, "demo_copy")
    begun = wait_until(lambda: world.ledger.copies.newest(NAME), _COPY_S, lambda: f"{world.airflow.runs(COPY)}")
    world.out.line(f"{COPY}: {begun.words} has begun, of the orders that were there before; changes go on")
    done = first
    while done < last and not _read(world):
        done, since = min(done + _SMALL, last), done
        change(world, since, done)
        time.sleep(_PAUSE_S)
    beside = done - first
    wait_until(lambda: _read(world), _COPY_S, lambda: f"the copy is not read; runs: {world.airflow.runs(COPY)}")
    chunks = world.ledger.copies.chunks(NAME, 1)
    places = len({chunk.low for chunk in chunks})
    said = f"read {sum(c.rows for c in chunks):,} orders in {len(chunks)} chunks, beside {beside:,} changes"
    world.out.check(places > len(chunks) // 4, f"{said}: as of {places} places in the database's log")
    change(world, done, last)


def _read(world: World) -> bool:
    """Whether all chunks of the copy are read; they are merged by and by."""
    newest = world.ledger.copies.newest(NAME)
    if newest is None or not newest.ended:
        return False
    return all(chunk.state == ChunkState.READ for chunk in world.ledger.copies.chunks(NAME, newest.number))


def copied(world: World) -> None:
    """Return when the copy is whole: all of it is merged."""

    def whole() -> bool:
        told = world.ledger.applies.told(NAME)
        return told is not None and told.copied.whole is not None

    wait_until(whole, _MERGE_S, lambda: f"the copy is not whole; runs: {world.airflow.runs(APPLY)}")
    rows = sum(chunk.rows for chunk in world.ledger.copies.chunks(NAME, 1))
    world.out.check(rows > FIRST * 9 // 10, f"the copy is whole: its {rows:,} rows are merged")


CATCH_UP = ("--wait", "2m")
"""A connector that is idle says within a minute how far it is."""
_OTHER, _HARMED = orders.TABLES
_IN_BOTH = f"WHERE id IN (SELECT id FROM {_OTHER}) ORDER BY id"
SILENT = f"""
SET SESSION sql_log_bin = 0;
DELETE FROM {_HARMED} {_IN_BOTH} LIMIT 3;
UPDATE {_HARMED} SET city = 'changed in silence' {_IN_BOTH} LIMIT 4;
"""
"""Of one shard; the other one has orders of the same numbers."""


def repair(world: World) -> None:
    """Rows of one shard that changed behind the log's back: no event tells of them, a comparison does, and puts them
    right."""
    out, harmed, other = world.out, _shard(_HARMED), _shard(_OTHER)
    world.mariadb.run(SILENT)
    out.line(f"deleted 3 orders of {harmed} and changed 4 with sql_log_bin=0: the connector hears nothing of it")
    out.line(f"{other} has orders of the same numbers, which are as they were")
    found = world.tidegate("compare", NAME, *CATCH_UP)
    told = "3 keys in the mirror, not in the source" in found.text and "4 keys in both, with other values" in found.text
    named = found.text.count(f"shard={harmed}") == 7 and f"shard={other}" not in found.text
    out.check(not found.ok and told and named, f"tidegate compare names all seven, of {harmed}, and changes nothing")
    fixed = world.tidegate("compare", NAME, *CATCH_UP, "--fix", "--why", "rows were changed with sql_log_bin=0")
    out.check(
        fixed.ok and world.tidegate("compare", NAME, *CATCH_UP).ok, "--fix puts them right: nothing differs any more"
    )


def _shard(table: str) -> str:
    """As its events have it."""
    return table.partition(".")[2]


def take_up(world: World) -> None:
    """The batch with the first event that has the new column stops, and lands with it once the YAML has it."""

    def refused() -> tuple[int, str] | None:
        world.say_landed(NAME)
        return _refusal(world)

    wait_until(refused, _BATCHES_S, lambda: f"no batch was refused; {_runs(world)}")
    batch, why = _refusal(world) or (0, "")
    world.out.line(f"batch {batch}: {why}")
    world.out.check(orders.NEW_COLUMNS[0] in why, f"batch {batch} stopped at the new column, and has not landed")
    merged = world.ledger.applies.told(NAME)
    world.out.line(f"the mirror goes on meanwhile: it holds batches 1 to {merged.upto if merged else 0}")
    wait_until(lambda: "failed" in _runs(world).values(), _BATCHES_S, lambda: f"no run has failed; {_runs(world)}")
    world.airflow.pause(APPLY, True)
    finished = world.tidegate("schema", "propose", NAME, "--write")
    added = f"name: {orders.NEW_COLUMNS[0]}" in finished.text
    world.out.check(finished.ok and added, "the YAML has the column now; nobody touched the table")
    run = next(run for run, state in _runs(world).items() if state == "failed")
    world.airflow.clear(INGEST, run, ["write", "land"])
    world.out.line(f"cleared write and land of {run} by Airflow's REST API; {APPLY} is paused for the next scene")


def drain(world: World) -> None:
    """Return when all that is in the topic has landed."""
    ends = _ends(world)

    def drained() -> bool:
        world.say_landed(NAME)
        view = world.ledger.batches.planning_view(NAME)
        if view.open_batch is None and view.planned_ends == ends:
            return True
        if set(_runs(world).values()) <= {"success", "failed"}:
            if world.ingests == _MOST_INGESTS:
                raise DemoFailed(f"{INGEST} gets nowhere; its logs lie below {world.info.root}/airflow/logs")
            _ingest(world)
        return False

    wait_until(drained, _BATCHES_S, lambda: f"the topic was not drained; runs: {_runs(world)}")
    world.out.check(world.told > 1, f"all {sum(ends.values()):,} records have landed, in {world.told} batches")


def _refusal(world: World) -> tuple[int, str] | None:
    batch = world.ledger.batches.open(NAME) if world.ledger.pipelines.row(NAME) else None
    found = None if batch is None else world.ledger.batches.refusal(NAME, batch.plan.batch_id)
    return None if batch is None or found is None else (batch.plan.batch_id, found.said)


def _runs(world: World) -> dict[str, str]:
    return world.airflow.runs(INGEST)


def _failed(world: World) -> set[str]:
    return {run for run, state in _runs(world).items() if state == "failed"}


def kill(world: World) -> None:
    """A merge dies after it has written files and before it is committed; Airflow's retry does it anew."""
    before = world.ledger.applies.told(NAME)
    with ThreadPoolExecutor(1) as pool:
        dying = pool.submit(kill_next_driver, world.workdir, _MERGE_S, MERGE)
        world.airflow.pause(APPLY, False)
        world.airflow.trigger(APPLY, "demo_killed")
        killed = dying.result()
    out = world.out
    out.line(f"killed process {killed.pid}, the merge {killed.attempt.name}; {len(killed.closed)} files were closed")
    after = world.ledger.applies.told(NAME)
    upto = before.upto if before else 0
    out.check(upto == (after.upto if after else 0), f"the table is as it was: batches 1 to {upto}")
    merge(world)
    _check_healed(world, killed)


def merge(world: World) -> None:
    """Return when all that has landed is merged."""

    def merged() -> bool:
        told = world.ledger.applies.told(NAME)
        return told is not None and told.upto == world.told

    wait_until(merged, _MERGE_S, lambda: f"{APPLY} did not merge; runs: {world.airflow.runs(APPLY)}")


def _check_healed(world: World, killed: Killed) -> None:
    told = world.ledger.applies.told(NAME)
    assert told is not None
    tries = max(t.tries for run in world.airflow.runs(APPLY) for t in world.airflow.tasks(APPLY, run).values())
    said = f"merged anew as {told.attempt}, by try {tries} of Airflow's task"
    world.out.check(told.attempt != killed.attempt.name and tries > 1, said)
    counts = f"{told.rows:,} rows, {told.tombstones:,} tombstones, of {told.events:,} events"
    world.out.line(f"the mirror holds batches 1 to {told.upto}: {counts}")


def evolve(world: World, first: int, last: int) -> None:
    """Another new column, whose type the messages say from now on, becomes one of the table without anybody."""
    world.connect.stop()
    world.connect.send_schemas(NAME)
    world.connect.start()
    world.out.line("Kafka Connect sends schemas along from here on (value.converter.schemas.enable=true)")
    path = world.pipelines / f"{NAME}.yaml"
    path.write_text(path.read_text().replace("unknown_fields: fail", "unknown_fields: evolve"))
    world.out.line("unknown_fields of the pipeline: evolve")
    failed = _failed(world)
    alter(world)
    change(world, first, last)
    finish(world, "the very last one")
    drain(world)
    merge(world)
    finished = world.tidegate("schema", "show", NAME)
    taken = finished.ok and orders.NEW_COLUMNS[1] in finished.text and _failed(world) <= failed
    world.out.check(taken, f"the table has the column {orders.NEW_COLUMNS[1]}, and no run has failed for it")


# ---------------------------------------------------------------- the end


def audit(world: World) -> None:
    """`tidegate audit`: ledger, table and files agree."""
    finished = world.tidegate("audit", NAME, "--deep", last=6)
    world.out.check(finished.ok, "the audit says balanced")


def count(world: World) -> None:
    """The independent checker."""
    server = f"{world.info.postgres_user}@{world.info.postgres_host}:{world.info.postgres_port}"
    words = [
        "--catalogue", f"postgresql://{server}/{ICEBERG}", "--table", TABLE, "--kafka", world.info.kafka_bootstrap,
        "--topic", TOPIC, "--source", *orders.TABLES,
        "--", "env", f"LD_LIBRARY_PATH={world.mariadb.libraries}", *world.mariadb.client(),
    ]  # fmt: skip
    confirmed = world.confirmed(check, words, "pyiceberg, psycopg2, MariaDB's client")
    world.out.check(confirmed, "the independent checker confirms it")
