"""`unknown_fields: evolve`: a field of a type that the message's schema says becomes a column by itself; any other one
stops the batch, as before."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.table import StaticTable
from sqlalchemy import select

from tests.crash.faults import Call, Faults, ProcessGone
from tests.crash.scenario import calm
from tests.mirror.worlds import YAML, MirrorWorld, mirror, told
from tidegate.cli import surroundings
from tidegate.cli.main import main
from tidegate.core.base.errors import BatchRefused, LostComparison, StorageAhead, TidegateError
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.spec.pipeline import Pipeline
from tidegate.ledger import schema
from tidegate.ledger.store import columns
from tidegate.sources import sampling
from tidegate.spec.loader import load_file
from tidegate.workflow.batch import ingest
from tidegate.workflow.restore import adoption

EVOLVING = YAML.replace("{{type: debezium}}", "{{type: debezium, unknown_fields: evolve}}")
ID, WORD = {"id": "int64"}, {"id": "int64", "word": "string"}


def seen(world: MirrorWorld) -> list[dict[str, Any]]:
    """The table's rows in order of the key, without what says how they came there."""
    loaded = world.loaded()
    found: pa.Table = StaticTable.from_metadata(loaded.metadata_location).scan().to_arrow()
    rows = found.select([n for n in found.column_names if not n.startswith("_")]).to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def versions(world: MirrorWorld) -> list[Pipeline]:
    return world.context().ledger.pipelines.specs("readings")


def happened(world: MirrorWorld) -> list[tuple[str, str]]:
    with world.context().ledger.store.begin() as c:  # type: ignore[attr-defined]
        return [(e.what, e.subject) for e in c.execute(select(schema.events).order_by(schema.events.c.id))]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MirrorWorld]:
    made = MirrorWorld(tmp_path, EVOLVING)
    yield made
    made.close()


QTY = {**WORD, "qty": "int32"}


def test_a_new_column_in_the_middle_of_a_batch(world: MirrorWorld) -> None:
    """One run: the attempt that meets it is refused, the next one of the same offsets has the column."""
    world.land(told(WORD, 10, id=1, word="a"), told(QTY, 11, id=2, word="b", qty=7))
    world.apply()
    world.land(told(QTY, 20, id=1, word="a", qty=None), told(QTY, 21, id=3, word="c", qty=-5))
    world.apply()
    assert seen(world) == [
        {"id": 1, "word": "a", "qty": None}, {"id": 2, "word": "b", "qty": 7}, {"id": 3, "word": "c", "qty": -5},
    ]  # fmt: skip
    (change,) = world.context().ledger.schema_changes.changes("readings")
    assert columns(change, "column", "type", "path", "batch_id", "partition", "offset", "why", "actor") == {
        "column": "qty", "type": "bigint", "path": "$.qty", "batch_id": 1, "partition": 0, "offset": 1,
        "why": "format.unknown_fields: evolve", "actor": "test",
    }  # fmt: skip
    steps = [what for what, _ in happened(world)]
    assert steps.index("refused") < steps.index("column accepted") < steps.index("replanned") < steps.index("sealed")
    assert [[c.name for c in spec.columns][:3] for spec in versions(world)] == [
        ["id", "word", "_op"],
        ["id", "word", "qty"],
    ]
    assert "batch 1: column qty bigint is accepted by format.unknown_fields: evolve" in world.said
    assert steps.count("refused") == 1, "what is known stops nothing"


def test_all_columns_beside_the_key_come_by_themselves(tmp_path: Path) -> None:
    world = MirrorWorld(tmp_path, EVOLVING.replace("  - {{name: word, type: string}}\n", ""))
    tags = {"type": "array", "items": {"type": "string"}}
    kinds = {**WORD, "ok": "boolean", "ratio": "double", "day": "int32", "tags": tags, "Placed": "int64"}
    row = {"id": 1, "word": "2026-01-01", "ok": True, "ratio": 0.5, "day": 20455, "tags": ["x"], "Placed": 2**40}
    world.land(told(kinds, 10, **row))
    world.apply()
    row["placed"] = row.pop("Placed")
    assert seen(world) == [row]
    types = {c.name: c.type for c in versions(world)[-1].columns}
    assert types["word"] == "string", "what a value looks like says nothing"
    world.close()


@pytest.mark.parametrize(
    ("yaml", "message", "why"),
    [
        (EVOLVING, told(QTY, 10, False, id=1, word="a", qty=7), "no schema of the message gives 'qty' a type"),
        (EVOLVING, told({**QTY, "z": "bytes"}, 10, id=1, word="a", qty=7, z="AQ=="), "gives 'z' a type"),
        (EVOLVING.replace("evolve", "fail"), told(QTY, 10, id=1, word="a", qty=7), "unknown field 'qty'"),
    ],
)  # fmt: skip
def test_what_is_not_allowed_or_has_no_type_stops_the_batch(
    tmp_path: Path, yaml: str, message: tuple[bytes, bytes], why: str
) -> None:
    world = MirrorWorld(tmp_path, yaml)
    with pytest.raises(BatchRefused, match=why) as error:
        world.land(message)
    assert "tidegate schema propose readings --write" in error.value.advice
    ledger = world.context().ledger
    refusal = ledger.batches.refusal("readings", 1)
    assert refusal is not None
    assert refusal.kind is RefusalKind.UNKNOWN_FIELD
    assert ledger.schema_changes.changes("readings") == ()
    assert len(versions(world)) == 1
    world.close()


# ---------------------------------------------------------------- the YAML has the last word


def edited(world: MirrorWorld, **changes: str) -> None:
    """The YAML with other texts, as the next task finds it."""
    text = EVOLVING
    for before, after in changes.items():
        text = text.replace({"policy": "evolve", "columns": "sink:"}[before], after)
    world.pipeline = mirror(world.folder, text)


def test_the_yaml_that_names_an_accepted_column_is_no_new_version(world: MirrorWorld) -> None:
    world.land(told(QTY, 10, id=1, word="a", qty=7))
    before = world.context().spec_version
    edited(world, columns="  - {{name: qty, type: bigint}}\nsink:")
    ctx = world.context()
    assert ctx.spec_version == before == 2
    assert [c.name for c in ctx.pipeline.columns if c.accepted] == []
    world.land(told(QTY, 20, id=2, word="b", qty=8))
    world.apply()
    assert [row["qty"] for row in seen(world)] == [7, 8]


def test_accepted_columns_stay_without_the_policy(world: MirrorWorld) -> None:
    world.land(told(QTY, 10, id=1, word="a", qty=7))
    edited(world, policy="ignore")
    world.land(told({**QTY, "more": "string"}, 20, id=2, word="b", qty=8, more="x"))
    world.apply()
    assert seen(world) == [{"id": 1, "word": "a", "qty": 7}, {"id": 2, "word": "b", "qty": 8}]


def test_a_field_that_the_yaml_reads_otherwise_is_the_yamls(world: MirrorWorld) -> None:
    world.land(told(QTY, 10, id=1, word="a", qty=7))
    world.apply()
    edited(world, columns="  - {{name: pieces, type: bigint, from: $.qty}}\nsink:")
    world.land(told(QTY, 20, id=2, word="b", qty=8))
    world.apply()
    assert [(row["qty"], row["pieces"]) for row in seen(world)] == [(7, None), (None, 8)]


def test_a_column_that_the_yaml_hides_is_dropped(world: MirrorWorld) -> None:
    world.land(told(QTY, 10, id=1, word="a", qty=7))
    world.apply()
    edited(world, columns="  - {{name: qty, type: bigint, hidden: true}}\nsink:")
    world.land(told(QTY, 20, id=2, word="b", qty=8))
    world.apply()
    assert [row["qty"] for row in seen(world)] == [7, None]


def test_a_type_that_the_files_do_not_have_is_refused(world: MirrorWorld) -> None:
    world.land(told(QTY, 10, id=1, word="a", qty=7))
    edited(world, columns="  - {{name: qty, type: string}}\nsink:")
    with pytest.raises(Exception, match="column qty was bigint, is string"):
        world.land(told(QTY, 20, id=2, word="b", qty=8))


def test_a_table_that_remembers_the_name_with_another_type_refuses(world: MirrorWorld) -> None:
    """Nothing is accepted then: the column could never be made."""
    edited(world, columns="  - {{name: qty, type: string}}\nsink:")
    world.land(told({**WORD, "qty": "string"}, 10, id=1, word="a", qty="x"))
    world.apply()
    edited(world)
    world.land(told(WORD, 20, id=2, word="b"))
    with pytest.raises(BatchRefused, match="the table cannot take its column: lake.readings: ") as error:
        world.land(told(QTY, 30, id=3, word="c", qty=7))
    assert "another name" in error.value.advice
    assert world.context().ledger.schema_changes.changes("readings") == ()
    edited(world, columns="  - {{name: qty_2, type: bigint, from: $.qty}}\nsink:")
    ingest.write(world.context(), "run 3")
    ingest.land(world.context(), "run 3")
    world.apply()
    assert [(row["qty"], row["qty_2"]) for row in seen(world)] == [("x", None), (None, None), (None, 7)]


# ---------------------------------------------------------------- deaths and restores


BEFORE, AFTER = told(WORD, 10, id=1, word="a"), told({**QTY, "more": "string"}, 11, id=2, word="b", qty=7, more="x")
WANTED = [{"id": 1, "word": "a", "qty": None, "more": None}, {"id": 2, "word": "b", "qty": 7, "more": "x"}]
TRIES = 8


@dataclass(frozen=True)
class Life:
    """What is sent, and what becomes of it: `changes` (column, type, offset), `rows`. `merged`: sent and merged before
    any fault."""

    yaml: str
    sent: tuple[tuple[bytes, bytes], ...]
    changes: list[tuple[str, str, int]]
    rows: list[dict[str, Any]]
    merged: tuple[tuple[bytes, bytes], ...] = ()

    def world(self, folder: Path, faults: Faults) -> MirrorWorld:
        """Before the events whose batch meets the faults."""
        if not self.merged:
            return MirrorWorld(folder, self.yaml, faults.wrap)
        world = MirrorWorld(folder, self.yaml)
        world.land(*self.merged)
        world.apply()
        world.wrap = faults.wrap
        return world


COLUMNS = Life(EVOLVING, (BEFORE, AFTER), [("qty", "bigint", 1), ("more", "string", 1)], WANTED)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    return undisturbed(COLUMNS, tmp_path_factory.mktemp("evolve"), "iceberg.create")


def undisturbed(life: Life, folder: Path, alters: str) -> list[Call]:
    """The changing calls of a run that takes columns up, without a fault."""
    faults = Faults()
    world = life.world(folder, faults)
    world.land(*life.sent)
    world.close()
    met = [call.method for call in faults.calls]
    order = ["batches.refuse", alters, "schema_changes.accept", "pipelines.register", "batches.replan"]
    assert [met.index(each, met.index("batches.refuse")) for each in order] == sorted(
        met.index(each, met.index("batches.refuse")) for each in order
    ), "the table first, then who allowed it, then the next attempt"
    assert met.count("schema_changes.accept") == 1
    return faults.calls


def test_a_death_at_any_step_heals(calls: list[Call], tmp_path: Path) -> None:
    """Of the process, or of an answer, or when another attempt does all of it meanwhile; nobody is asked."""
    assert disturbed(COLUMNS, calls, tmp_path) == []


def disturbed(life: Life, calls: list[Call], tmp_path: Path) -> list[str]:
    """What has gone wrong after a fault at each of the calls."""
    first = [call.method for call in calls].index("batches.refuse")
    last = [call.method for call in calls].index("batches.replan")
    wrong = []
    for at in range(first, last + 1):
        for kind in ways(calls[at]):
            here = tmp_path / f"{at}-{kind.replace(' ', '-').replace(',', '')}"
            here.mkdir()
            with mock.patch.object(os, "fsync"):
                found = lived(here, Faults.one(at, kind), calls[at].method, life)
            if found is not None:
                wrong.append(f"{calls[at].site}, {kind}: {found}")
    return wrong


def ways(call: Call) -> list[str]:
    """A death before each call (behind it is before the next one), and one other way by the run's seed.
    `TIDEGATE_FAULTS=all`: all of them."""
    every = [k for k in (*call.kinds(), "overtaken before", "overtaken after") if "hang" not in k]
    if os.environ.get("TIDEGATE_FAULTS") == "all":
        return every
    others = [k for k in every if k != "gone before"]
    return ["gone before", random.Random(f"{os.environ['TIDEGATE_TEST_SEED']}:{call.method}").choice(others)]


def lived(folder: Path, faults: Faults, method: str, life: Life) -> str | None:
    world = life.world(folder, faults)
    faults.rival = lambda _: rival(world, "run 2" if life.merged else "run 1")
    try:
        world.send(*life.sent)
        for _ in range(TRIES):
            try:
                world.ingest("run 2" if life.merged else "run 1")
                break
            except ProcessGone:
                continue
            except TidegateError as e:
                if not e.retry:
                    raise
        if [site.partition("(")[0] for site in faults.fired] != [method]:
            return f"the fault did not fire, but {faults.fired}"
        world.wrap = lambda name, port: port
        world.apply()
        changes = world.context().ledger.schema_changes.changes("readings")
        assert [(c.column, c.type, c.offset) for c in changes] == life.changes
        assert seen(world) == life.rows
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    finally:
        world.close()
    return None


def rival(world: MirrorWorld, run: str) -> None:
    with calm(world), suppress(LostComparison):
        ingest.write(world.context(), run)


def test_a_restored_ledger_takes_accepted_columns_from_storage(world: MirrorWorld) -> None:
    """Even where the YAML no longer says `evolve`: no value of the column may be lost without a word."""
    world.land(BEFORE)
    world.close()
    early = world.database.read_bytes()
    world.land(AFTER)
    world.apply()
    world.close()
    world.database.write_bytes(early)
    world.registered.clear()
    edited(world, policy="ignore")
    with pytest.raises(StorageAhead):
        world.land(told(QTY, 30, id=3, word="c", qty=9))
    adoption.adopt(world.context(), adoption.survey(world.context()), "the ledger was restored")
    changes = world.context().ledger.schema_changes.changes("readings")
    assert [(c.column, c.type, c.path, c.offset) for c in changes] == [
        ("qty", "bigint", "$.qty", None), ("more", "string", "$.more", None),
    ]  # fmt: skip
    world.ingest("run 9")
    world.apply()
    assert [row["qty"] for row in seen(world)] == [None, 7, 9]


def test_a_ledger_that_forgot_what_had_not_landed_accepts_it_again(world: MirrorWorld) -> None:
    """The table has the column already."""
    world.land(BEFORE)
    world.apply()
    world.send(AFTER)
    ingest.plan(world.context(), "run 2")
    world.close()
    early = world.database.read_bytes()
    ingest.write(world.context(), "run 2")
    world.close()
    world.database.write_bytes(early)
    world.registered.clear()
    world.ingest("run 2")
    world.apply()
    assert seen(world) == WANTED
    assert {c.column for c in world.context().ledger.schema_changes.changes("readings")} == {"qty", "more"}


# ---------------------------------------------------------------- what people see


@pytest.fixture
def tide(world: MirrorWorld, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    return command_line(world, monkeypatch, EVOLVING)


def command_line(world: MirrorWorld, monkeypatch: pytest.MonkeyPatch, yaml: str) -> Callable[..., Any]:
    """`tidegate schema`, beside the world's YAML and ledger."""
    (world.folder / "readings.yaml").write_text(yaml.format(location=world.location))
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(world.folder))
    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_LEDGER", json.dumps({"conn_type": "sqlite", "host": str(world.database)}))
    monkeypatch.setattr(surroundings, "source", lambda spec: world.kafka)
    monkeypatch.setattr(sampling, "sample", lambda pipeline, *_: sampling.Sampled(9, {}, {}))
    return lambda *words: CliRunner().invoke(main, ["schema", *words])


def test_show_tells_what_was_accepted_and_propose_writes_it(world: MirrorWorld, tide: Callable[..., Any]) -> None:
    assert tide("show", "readings").stdout == "readings: no column was accepted beside the YAML's\n"
    world.land(BEFORE, AFTER)
    world.close()
    assert tide("show", "readings").stdout == (
        "qty bigint, from $.qty: not in the YAML; first seen in batch 1, partition 0, offset 1\n"
        "  accepted 2013-01-09T04:00Z by test (format.unknown_fields: evolve)\n"
        "more string, from $.more: not in the YAML; first seen in batch 1, partition 0, offset 1\n"
        "  accepted 2013-01-09T04:00Z by test (format.unknown_fields: evolve)\n"
    )
    written = tide("propose", "readings", "--write")
    assert "+  - {name: qty, type: bigint}  # accepted by evolve\n" in written.stdout, written.output
    found = json.loads(tide("show", "readings", "--json").stdout)
    assert [(c["column"], c["offset"], c["in_yaml"]) for c in found["columns"]] == [("qty", 1, True), ("more", 1, True)]
    version = world.context().spec_version
    world.pipeline = load_file(world.folder / "readings.yaml")
    assert world.context().spec_version == version
    assert "every field has its column" in tide("propose", "readings").stdout
    assert "the YAML decides" in tide("show", "readings").stdout
