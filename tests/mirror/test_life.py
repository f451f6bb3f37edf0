"""Whole lives of a mirror: batches land, are merged, and are read; and what stands in the way says so."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate

from spark_jobs.engine.decoder import decoder_for
from tests.change_events.recordings import Message, chunk, pairs, recorded, schemas
from tests.hooks import Hook, Once
from tests.mirror.worlds import YAML, MirrorWorld, event, mirror
from tidegate.core.base.errors import Alarm, BatchRefused, LostComparison, SpecError, StepMissing, StorageAhead
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.mirror.applies import OPEN, REFUSED, Told
from tidegate.core.target.paths import Layout
from tidegate.workflow.apply.apply import apply
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.restore import adoption


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MirrorWorld]:
    made = MirrorWorld(tmp_path)
    yield made
    made.close()


def two_batches(world: MirrorWorld) -> None:
    world.land(event(1, "a", 10), event(2, "b", 11), event(3, "c", 12))
    world.land(event(1, "a2", 20), event(2, None, 21), event(4, "d", 22))


def test_what_lands_is_merged_once(world: MirrorWorld) -> None:
    two_batches(world)
    done = world.apply()
    assert (done.merges, done.events, done.told.upto) == (1, 6, 2)
    assert world.rows() == {1: "a2", 3: "c", 4: "d"}
    assert (done.told.rows, done.told.tombstones) == (3, 1)
    assert world.apply().merges == 0
    world.land(event(2, "back", 30))
    assert world.apply().told.upto == 3
    assert world.rows() == {1: "a2", 2: "back", 3: "c", 4: "d"}


def test_landed_files_stay_where_they_are(world: MirrorWorld) -> None:
    """A table that is taken back is made again from them."""
    two_batches(world)
    before = [path for path in world.files() if "/landed/" in path]
    world.apply()
    assert [path for path in world.files() if "/landed/" in path] == before != []


def test_batches_are_cut_into_merges_of_a_bounded_size(world: MirrorWorld) -> None:
    two_batches(world)
    world.land(event(5, "e", 30))
    done = world.apply(most_events=4)
    assert (done.merges, done.told.upto, done.left) == (2, 3, False)
    assert len(world.loaded().metadata.snapshots) == 2
    world.land(event(6, "f", 40))
    world.land(event(7, "g", 50))
    done = world.apply(most_events=1, go_on=lambda: False)
    assert (done.merges, done.told.upto, done.left) == (1, 4, True)


# ---------------------------------------------------------------- recorded messages

KEYS = {"mariadb": "string", "postgres": "bigint"}
RECORDED = """\
version: 1
name: readings
owner: shop
source: {{topic: readings}}
format: {{type: debezium, envelope: ENVELOPEENCODING}}
columns:
  - {{name: id, type: KIND, nullable: false}}
  - {{name: customer, type: string}}
  - {{name: pieces, type: int}}
sink: {{kind: mirror, table: lake.readings, location: "{location}", key: [id], buckets: 2}}
"""


@pytest.mark.parametrize("name", ["mariadb-plain", "postgres-plain", "mariadb-flat", "postgres-flat", "postgres-avro"])
def test_recorded_messages_in_any_cut(name: str, tmp_path: Path) -> None:
    """A connector that restarted has sent nearly all of them twice."""
    database, form = name.split("-")
    sent, its_json = pairs(name) if form == "avro" else (recorded(name), recorded(name))
    yaml = RECORDED.replace("KIND", KEYS[database]).replace("ENVELOPE", "flat" if form == "flat" else "full")
    world, dice = (
        MirrorWorld(tmp_path, yaml.replace("ENCODING", _schemas(tmp_path) if form == "avro" else "")),
        random.Random(name),
    )
    dirty = decoder_for(world.pipeline).decode(chunk(sent)).bad  # TRUNCATE, and tombstones of flat messages
    messages = [m for i, m in enumerate(sent) if i not in dirty]
    while messages:
        cut = dice.randint(1, 12)
        world.land(*messages[:cut])
        messages = messages[cut:]
        if dice.random() < 0.5:
            world.apply()
    world.apply()
    rows = StaticTable.from_metadata(world.loaded().metadata_location).scan(row_filter="_op != 'd'").to_arrow()
    found = {r["id"]: (r["customer"], r["pieces"]) for r in rows.to_pylist()}
    assert found == _replayed(its_json, form == "flat")
    assert len(found) == rows.num_rows > 2
    world.close()


def _schemas(folder: Path) -> str:
    """The keys of `format` for events in Avro, whose schemas are files beside the YAML."""
    for number, text in schemas().items():
        (folder / f"{number}.avsc").write_text(text)
    files = ", ".join(f"{number}: {number}.avsc" for number in schemas())
    return f", encoding: avro, schemas: {{{{{files}}}}}"


def _replayed(messages: list[Message], flat: bool) -> dict[Any, Any]:
    """The source's table, by the messages that say something for the first time, in their order."""
    rows: dict[Any, Any] = {}
    seen = set()
    for key, value in messages:
        if key is None or value is None:
            continue
        said = json.loads(value)
        if said.get("op") == "t":
            continue
        found = json.loads(key)["id"]
        op = said["__op"] if flat else said["op"]
        at = [v for k, v in sorted((said if flat else said["source"]).items()) if k.endswith(("pos", "row", "lsn"))]
        if (mark := (found, op, *map(str, at))) in seen:
            continue
        seen.add(mark)
        row = said if flat else said["after"]
        if op == "d":
            rows.pop(found, None)
        else:
            rows[found] = (row["customer"], row["pieces"])
    return rows


# ---------------------------------------------------------------- the range


def test_a_batch_that_was_given_up_counts_as_empty(world: MirrorWorld) -> None:
    world.land(event(1, "a", 10))
    world.send(event(2, "lost", 20))
    ingest.plan(world.context(), "dies")
    reconcile.abandon(world.context(), 2, "retention has passed it", force=True)
    world.land(event(3, "c", 30))
    done = world.apply()
    assert (done.merges, done.told.upto, done.events) == (1, 3, 2)
    assert world.rows() == {1: "a", 3: "c"}


def test_an_open_batch_ends_the_range(world: MirrorWorld) -> None:
    world.land(event(1, "a", 10))
    world.send(event(2, "b", 20))
    ingest.plan(world.context(), "under way")
    assert world.apply().told.upto == 1
    assert world.apply().merges == 0


def test_a_range_without_events_starts_no_job(world: MirrorWorld) -> None:
    world.land(event(1, "a", 10))
    world.apply()
    world.send(event(2, "lost", 20))
    ingest.plan(world.context(), "dies")
    reconcile.abandon(world.context(), 2, "lost", force=True)
    assert (world.apply().told.upto, world.rows()) == (2, {1: "a"})
    assert world.launcher is not None
    assert world.launcher.runs == []


# ---------------------------------------------------------------- M1, M4, M7, R11


def test_m1_two_workers_at_once(world: MirrorWorld) -> None:
    """Really at once: both have read the same snapshot when one commits."""
    two_batches(world)
    both, errors = threading.Barrier(2), list[BaseException]()

    def work() -> None:
        ctx = world.context()
        ctx.keyed.catalogue = Hook(ctx.keyed.catalogue, before={"commit": Once(lambda: both.wait(20))})  # type: ignore
        try:
            apply(ctx)
        except LostComparison:
            pass  # its retry finds nothing left
        except BaseException as e:
            errors.append(e)

    world.context().keyed.prepare()  # type: ignore[union-attr]
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert world.rows() == {1: "a2", 3: "c", 4: "d"}
    ctx = world.context()
    assert ctx.keyed is not None
    assert (ctx.keyed.standing().events, ctx.keyed.standing().upto) == (6, 2)


def test_m4_a_table_that_was_taken_back_goes_on_from_there(world: MirrorWorld) -> None:
    world.land(event(1, "a", 10))
    world.apply()
    first = world.loaded().metadata.current_snapshot_id
    world.land(event(1, "a2", 20), event(2, "b", 21))
    world.apply()
    to = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": first}
    world.iceberg.commit(world.loaded(), (), (SetSnapshotRefUpdate.model_validate(to),))
    assert world.rows() == {1: "a"}
    done = world.apply()
    assert (done.told.upto, world.rows()) == (2, {1: "a2", 2: "b"})
    assert any("it had 2: somebody has taken it back" in line for line in world.said)
    history = world.context().ledger.cleaning.history("readings", "mirror")
    assert [(m.what, m.detail["from"], m.detail["to"]) for m in history] == [("mirror taken back", 2, 1)]
    assert world.context().ledger.applies.told("readings") == Told.by(world.standing())


def test_r11_a_table_beyond_the_ledger_is_refused(world: MirrorWorld) -> None:
    """Ledger and storage were restored, the table was not."""
    world.land(event(1, "a", 10))
    world.apply()
    world.close()
    early = (world.folder / "ledger.db").read_bytes()
    world.land(event(2, "b", 20))
    world.apply()
    world.close()
    (world.folder / "ledger.db").write_bytes(early)
    with pytest.raises(StorageAhead, match="the ledger's next batch is 2, but"):
        world.apply()
    layout = Layout.of(world.pipeline)
    for gone in (layout.high_water_mark(2), layout.landed(2)):
        world.store.delete(gone)
    with pytest.raises(StorageAhead, match="the table holds batches 1 to 2, but the ledger's newest landed one is 1"):
        world.apply()
    assert world.rows() == {1: "a", 2: "b"}


def test_r11_a_ledger_that_was_restored_takes_up_what_has_landed_and_goes_on(world: MirrorWorld) -> None:
    """Only the ledger is from a backup: batch 2 is in storage and in the table, batch 3 in storage alone."""
    world.land(event(1, "a", 10))
    world.apply()
    world.close()
    early = (world.folder / "ledger.db").read_bytes()
    world.land(event(2, "b", 20))
    world.apply()
    world.land(event(1, None, 30), event(3, "c", 31))
    world.close()
    (world.folder / "ledger.db").write_bytes(early)
    with pytest.raises(StorageAhead):
        world.apply()
    adoption.adopt(world.context(), adoption.survey(world.context()), "the ledger was restored")
    done = world.apply()
    assert (done.merges, done.told.upto, done.told.events) == (1, 3, 4)
    assert world.rows() == {2: "b", 3: "c"}
    assert world.land(event(4, "d", 40)) is not None
    assert world.apply().told.upto == 4


def test_a_ledger_that_forgot_a_merge_finds_it_in_the_table(world: MirrorWorld) -> None:
    world.land(event(1, "a", 10))
    world.close()
    early = (world.folder / "ledger.db").read_bytes()
    world.apply()
    (world.folder / "ledger.db").write_bytes(early)
    done = world.apply()
    assert (done.merges, done.told.upto) == (0, 1)
    assert world.context().ledger.applies.told("readings") == done.told


def test_m7_a_contradiction_is_refused_and_nothing_is_committed(world: MirrorWorld) -> None:
    world.land(event(1, "a", 10))
    world.apply()
    world.land(event(1, "b", 20), event(1, "other", 20))
    two = "two contents of one key at one position"
    with pytest.raises(BatchRefused, match=two) as refused:
        world.apply()
    assert refused.value.kind == RefusalKind.CONFLICT
    with pytest.raises(BatchRefused, match=two) as refused:  # without a job
        world.apply()
    assert "tidegate apply readings --again" in refused.value.advice
    newest = world.context().ledger.applies.newest("readings")
    assert newest is not None
    assert (newest.state, newest.apply.epoch) == (REFUSED, 2)
    with pytest.raises(BatchRefused, match=two):
        world.apply(again=True)
    newest = world.context().ledger.applies.newest("readings")
    assert newest is not None
    assert (newest.state, newest.apply.epoch) == (REFUSED, 3)
    assert "two contents" in (newest.why or "")
    assert world.rows() == {1: "a"}


def test_m7_a_person_may_let_the_order_decide(world: MirrorWorld) -> None:
    """The same row wins in every cut, and only the merge that the person has seen is let through."""
    pair, seen = (event(1, "b", 20), event(1, "other", 20)), set()
    for number, cut in enumerate((pair, pair[::-1])):
        (folder := world.folder / str(number)).mkdir()
        other = MirrorWorld(folder)
        other.land(cut[0])
        if number:
            other.apply()  # then the table's row contradicts the event
        other.land(cut[1], event(2, "c", 21))
        with pytest.raises(BatchRefused, match="two contents of one key at one position"):
            other.apply()
        done = other.apply(conflicts="both are right")
        assert (done.told.upto, done.told.rows, done.told.events) == (2, 2, 3)
        seen.add(other.rows()[1])
        history = other.context().ledger.cleaning.history("readings", "apply 2-2" if number else "apply 1-2")
        assert [m.detail["takes conflicts"] for m in history if "takes conflicts" in m.detail] == ["both are right"]
        other.land(event(3, "x", 30), event(3, "y", 30))
        with pytest.raises(BatchRefused):
            other.apply()
        other.close()
    assert len(seen) == 1


def test_events_that_the_ledger_does_not_know_stop_the_next_merge(world: MirrorWorld) -> None:
    two_batches(world)
    world.apply()
    ctx = world.context()
    ctx.ledger = Hook(ctx.ledger)  # type: ignore[assignment]
    ctx.ledger.applies = Hook(ctx.ledger.applies)  # type: ignore[assignment]
    ctx.ledger.applies.rows = lambda *_: 5  # type: ignore[method-assign]
    with pytest.raises(Alarm, match="have taken 6 events, but batches 1 to 2 have landed 5"):
        apply(ctx)


def test_a_try_that_died_is_overtaken_by_the_table(world: MirrorWorld) -> None:
    world.land(event(1, "a", 10))
    ctx = world.context()
    ctx.ledger.applies.begin("readings", 1, 1, "dead")
    world.apply()
    database = world.context().ledger.applies
    assert not database.holds(_first(database))
    newest = database.newest("readings")
    assert newest is not None
    assert (newest.apply.epoch, newest.state != OPEN) == (2, True)


def _first(ledger: Any) -> Any:
    newest = ledger.newest("readings").apply
    return type(newest)(pipeline="readings", first=1, last=1, epoch=1, nonce="dead")


# ---------------------------------------------------------------- specs


def test_an_event_that_cannot_be_decoded_refuses_its_batch(world: MirrorWorld) -> None:
    world.send(event(1, "a", 10), (b'{"id":2}', b"no json"))
    ingest.plan(world.context(), "run")
    with pytest.raises(BatchRefused, match=r"1 of 2 records are dirty, over dirty\.max_count"):
        ingest.write(world.context(), "run")


def test_a_new_column_is_null_in_what_stands(world: MirrorWorld) -> None:
    world.land(event(1, "a", 10))
    world.apply()
    more = YAML.replace("  - {{name: word", "  - {{name: number, type: int}}\n  - {{name: word")
    world.pipeline = mirror(world.folder, more)
    world.land(event(2, "b", 20))
    world.apply()
    assert world.rows() == {1: "a", 2: "b"}
    rows = StaticTable.from_metadata(world.loaded().metadata_location).scan().to_arrow()
    assert rows["number"].null_count == 2


def test_the_key_stays(world: MirrorWorld) -> None:
    second = YAML.replace("  - {{name: word", "  - {{name: id2, type: bigint, nullable: false}}\n  - {{name: word")
    world.pipeline = mirror(world.folder, YAML)
    world.land(event(1, "a", 10))
    changed = second.replace("  - {{name: id, type: bigint, nullable: false}}\n", "")
    world.pipeline = mirror(world.folder, changed.replace("[id]", "[id2]"))
    with pytest.raises(SpecError, match=r"sink\.key"):
        world.apply()


def test_nothing_of_it_is_published_by_windows(world: MirrorWorld) -> None:
    world.land(event(1, "a", 10))
    with pytest.raises(StepMissing, match="has no windows"):
        world.context().target.standing(None)  # type: ignore[arg-type]
