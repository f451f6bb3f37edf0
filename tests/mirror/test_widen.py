"""`unknown_fields: evolve`: a column grows to the type that the message's schema says, the table first. Where its table
cannot have that type, or somebody has written what hangs on it, the values decide, as before."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyiceberg.table import StaticTable

from tests.mirror.audits import deep
from tests.mirror.avro_events import AvroEvents, decimal
from tests.mirror.days import DAY, DailyWorld
from tests.mirror.days import YAML as DAILY
from tests.mirror.test_changes import read
from tests.mirror.test_evolve import EVOLVING, command_line, happened, seen
from tests.mirror.test_where_key import ask, states
from tests.mirror.worlds import MirrorWorld, mirror, told
from tests.world import T0, World
from tidegate.cli.main import main
from tidegate.core.base.errors import BatchRefused, CatalogueMismatch, SpecError
from tidegate.core.batch.refusal import RefusalKind
from tidegate.ledger.store import columns
from tidegate.spec.loader import load_file
from tidegate.workflow.batch import ingest

NARROW = EVOLVING.replace("sink:", "  - {{name: qty, type: int}}\nsink:")
KEYED = NARROW.replace("id, type: bigint", "id, type: int")
INT = {"id": "int32", "word": "string", "qty": "int32"}
LONG = {**INT, "qty": "int64"}
BIG = 2**40


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MirrorWorld]:
    made = MirrorWorld(tmp_path, NARROW)
    made.land(told(INT, 10, id=1, word="a", qty=1), told(INT, 11, id=2, word="b", qty=2))
    made.apply()
    yield made
    made.close()


def kind_of(world: MirrorWorld, column: str = "qty") -> str:
    """The type that the table has."""
    return str(world.loaded().metadata.schema().find_field(column).field_type)


def quantities(world: MirrorWorld) -> list[tuple[int, int | None]]:
    return [(row["id"], row["qty"]) for row in seen(world)]


def test_status_knows_what_has_grown(world: MirrorWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The YAML says int still: it contradicts nothing."""
    world.land(told(LONG, 20, id=2, word="b", qty=BIG))
    world.apply()
    world.close()
    command_line(world, monkeypatch, NARROW)
    for command, shown in (("status readings --no-kafka", "batch"), ("doctor readings --timeout 0.5", "well")):
        found = CliRunner().invoke(main, command.split())
        assert "landed under the spec as it was" not in found.output
        assert shown in found.output


def test_a_column_grows_in_the_middle_of_a_batch(world: MirrorWorld) -> None:
    """One run. Files of buckets that no event changes stay as they are, and are read as the wider type."""
    assert kind_of(world) == "int"
    world.land(told(INT, 20, id=3, word="c", qty=3), told(LONG, 21, id=1, word="a", qty=BIG))
    assert kind_of(world) == "long", "before any row needs it"
    world.apply()
    assert quantities(world) == [(1, BIG), (2, 2), (3, 3)]
    (change,) = world.context().ledger.schema_changes.changes("readings")
    assert columns(change, "column", "type", "path", "batch_id", "partition", "offset", "why", "actor") == {
        "column": "qty", "type": "bigint", "path": "$.qty", "batch_id": 2, "partition": 0, "offset": 3,
        "why": "format.unknown_fields: evolve", "actor": "test",
    }  # fmt: skip
    steps = [what for what, _ in happened(world)]
    assert steps.index("refused") < steps.index("column widened") < steps.index("replanned")
    assert steps.count("refused") == 1
    refusal = world.context().ledger.batches.refusal("readings", 2)
    assert refusal is None or refusal.kind is RefusalKind.WIDER_TYPE
    assert "batch 2: column qty grows from int to bigint by format.unknown_fields: evolve" in world.said
    table = StaticTable.from_metadata(world.loaded().metadata_location)
    for least, wanted in ((2, [1, 2, 3]), (3, [1, 3]), (4, [1])):  # by statistics of files of both types
        found = table.scan(row_filter=f"qty >= {least}").to_arrow()
        assert sorted(found["id"].to_pylist()) == wanted
        assert found["qty"].type == pa.int64()


def test_whoever_reads_what_landed_reads_both_types(world: MirrorWorld) -> None:
    world.land(told(LONG, 20, id=1, word="a", qty=BIG))
    world.apply()
    assert deep(world).problems == ()
    events = read(world).arrow()
    assert sorted(events["qty"].to_pylist()) == [1, 2, BIG]
    assert states(ask(world, "id=1")) == [("row", 2, 2**40 + 20), ("older", 1, 2**40 + 10)]
    world.land(told(INT, 11, id=2, word="b", qty=2), told(INT, 10, id=1, word="a", qty=1))
    world.apply()
    assert quantities(world) == [(1, BIG), (2, 2)], "what is sent again from before says the same"
    assert deep(world).problems == ()


def test_a_key_grows_and_stays_in_its_bucket(tmp_path: Path) -> None:
    world = MirrorWorld(tmp_path, KEYED)
    world.land(*(told(INT, 10 + n, id=n, word="a", qty=n) for n in range(9)))
    world.apply()
    wide = {**LONG, "id": "int64"}
    world.land(
        *(told(wide, 30 + n, id=n, word="b", qty=BIG + n) for n in range(0, 9, 2)), told(wide, 50, id=BIG, qty=0)
    )
    world.apply()
    assert quantities(world) == [(n, n if n % 2 else BIG + n) for n in range(9)] + [(BIG, 0)]
    assert [what for what, _ in happened(world)].count("refused") == 1, "both columns at once"
    assert deep(world).problems == ()
    assert states(ask(world, "id=3")) == [("row", 1, 2**40 + 13)]
    assert states(ask(world, f"id={BIG}")) == [("row", 2, 2**40 + 50)]
    world.close()


def test_an_accepted_column_is_wide_from_the_beginning(tmp_path: Path) -> None:
    """So that whole numbers grow only where somebody has written a narrower type."""
    world = MirrorWorld(tmp_path, EVOLVING)
    world.land(told(INT, 10, id=1, word="a", qty=1), told(LONG, 11, id=2, word="b", qty=BIG))
    assert [c.type for c in world.context().ledger.schema_changes.changes("readings")] == ["bigint"]
    world.close()


# ---------------------------------------------------------------- decimals, and days

TOTAL = EVOLVING.replace("sink:", '  - {{name: total, type: "decimal(6,2)"}}\nsink:')
DAYS = DAILY.replace("{{type: debezium}}", "{{type: debezium, unknown_fields: evolve}}")
PRICED = {"id": "long", "word": "string", "total": decimal(6)}


def reads(world: World, events: AvroEvents) -> None:
    """The pipeline knows the schemas of all events that were made."""
    world.pipeline = replace(world.pipeline, format=events.format())


def test_decimals_get_digits_before_their_point(tmp_path: Path) -> None:
    """By schemas in Avro; and no others behind it, which no table of Iceberg can give them."""
    events, world = AvroEvents(), MirrorWorld(tmp_path, TOTAL)
    first = events.told(PRICED, 10, id=1, word="a", total=Decimal("12.50"))
    more = events.told({**PRICED, "total": decimal(12)}, 20, id=2, word="b", total=Decimal("1234567890.25"))
    finer = events.told({**PRICED, "total": decimal(14, 4)}, 30, id=3, word="c", total=Decimal("1.1250"))
    reads(world, events)
    world.land(first)
    world.apply()
    world.land(more, first)
    world.apply()
    assert kind_of(world, "total") == "decimal(12, 2)"
    assert [(row["id"], row["total"]) for row in seen(world)] == [(1, Decimal("12.50")), (2, Decimal("1234567890.25"))]
    assert deep(world).problems == ()
    with pytest.raises(BatchRefused, match="dirty"):
        world.land(finer)
    world.close()


def test_no_table_gets_other_digits_behind_the_point(tmp_path: Path) -> None:
    """The library would say so of old values, which would be others then."""
    world = MirrorWorld(tmp_path, TOTAL)
    world.context().table.prepare()
    for kind in ("decimal(8,3)", "decimal(5,1)"):
        ctx = world.context()
        columns = tuple(replace(c, type=kind) if c.name == "total" else c for c in ctx.pipeline.columns)
        with pytest.raises(CatalogueMismatch, match=r"column total is decimal\(6, 2\)"):
            replace(ctx, pipeline=replace(ctx.pipeline, columns=columns)).table.prepare()
    assert kind_of(world, "total") == "decimal(6, 2)"
    world.close()


def test_days_have_more_digits_too(tmp_path: Path) -> None:
    """Each day's files are of the types of its own time; a replay writes today's."""
    yaml = DAYS.replace("windows:", '  - {{name: total, type: "decimal(6,2)"}}\nwindows:')
    events, world = AvroEvents(), DailyWorld(tmp_path, yaml)
    wide = {**PRICED, "total": decimal(12)}
    made = [
        events.told(PRICED, 10, T0, id=1, word="a", total=Decimal("-12.50")),
        events.told(wide, 20, T0 + DAY, id=2, word="b", total=Decimal("1234567890.25")),
        events.told(wide, 30, T0 + 4 * DAY, id=3, word="c", total=Decimal(1)),
    ]
    reads(world, events)
    world.land(made[0])
    world.land(made[1])
    world.land(made[2])
    world.land(made[2], partition=1)
    world.publish(0)
    world.publish(1)
    assert dict(world.catalogue._tables["lake.readings"].definition.columns)["total"] == "decimal(12,2)"
    assert totals(world, 1) == [(1, Decimal("-12.50")), (2, Decimal("1234567890.25"))]
    assert world.replay_day(0).new
    assert totals(world, 0) == [(1, Decimal("-12.50"))]
    assert deep(world).problems == ()
    world.close()


def test_a_day_is_published_while_its_table_is_wider_than_the_spec(tmp_path: Path) -> None:
    """A task that died between the table and the ledger."""
    yaml = DAYS.replace("windows:", '  - {{name: total, type: "decimal(6,2)"}}\nwindows:')
    events, world = AvroEvents(), DailyWorld(tmp_path, yaml)
    first = events.told(PRICED, 10, T0, id=1, word="a", total=Decimal("12.50"))
    last = events.told(PRICED, 20, T0 + 4 * DAY, id=2, word="b", total=Decimal(1))
    reads(world, events)
    world.land(first, last)
    world.land(last, partition=1)
    world.publish(0)
    ctx = world.context()
    grown = tuple(replace(c, type="decimal(12,2)") if c.name == "total" else c for c in ctx.pipeline.columns)
    replace(ctx, pipeline=replace(ctx.pipeline, columns=grown)).table.prepare()
    world.publish(1)
    assert totals(world, 1) == [(1, Decimal("12.50"))]
    assert dict(world.catalogue._tables["lake.readings"].definition.columns)["total"] == "decimal(12,2)"
    world.close()


def totals(world: DailyWorld, n: int) -> list[tuple[int, Decimal]]:
    place = world.place(n)
    assert place is not None
    found = [row for path in place.glob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted((row["id"], row["total"]) for row in found)


def test_integers_of_days_stay_as_narrow_as_their_files(tmp_path: Path) -> None:
    """Spark reads no int of an old day's file as a bigint: a value that does not fit stops its batch."""
    world = DailyWorld(tmp_path, DAYS.replace("windows:", "  - {{name: qty, type: int}}\nwindows:"))
    world.land(told(LONG, 10, ms=T0, id=1, word="a", qty=7))
    with pytest.raises(BatchRefused, match="dirty"):
        world.land(told(LONG, 20, ms=T0, id=2, word="b", qty=BIG))
    assert world.context().ledger.schema_changes.changes("readings") == ()
    world.close()


# ---------------------------------------------------------------- what does not grow by itself


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        (NARROW.replace("evolve", "fail"), told(LONG, 20, id=1, word="a", qty=BIG)),
        (NARROW, told(LONG, 20, False, id=1, word="a", qty=BIG)),
        (NARROW, told({**INT, "qty": "string"}, 20, id=1, word="a", qty="many")),
    ],
)
def test_what_does_not_grow_stops_at_a_value_that_does_not_fit(
    tmp_path: Path, yaml: str, message: tuple[bytes, bytes]
) -> None:
    """By the policy, without a schema, and to another kind of type."""
    world = MirrorWorld(tmp_path, yaml)
    with pytest.raises(BatchRefused, match="dirty"):
        world.land(message)
    refusal = world.context().ledger.batches.refusal("readings", 1)
    assert refusal is not None
    assert refusal.kind is RefusalKind.DIRTY_LIMIT
    assert world.context().ledger.schema_changes.changes("readings") == ()
    world.close()


@pytest.mark.parametrize("name", ["qty", "QTY", '\\"Qty\\"'])
def test_what_an_expression_reads_stays(tmp_path: Path, name: str) -> None:
    """Else the expression would be of another type than its author has seen, or none that its column takes."""
    computed = f'  - {{{{name: twice, type: bigint, expr: "{name} * 2"}}}}\nsink:'
    world = MirrorWorld(tmp_path, NARROW.replace("sink:", computed))
    world.land(told(LONG, 10, id=1, word="a", qty=1))
    with pytest.raises(BatchRefused, match="dirty"):
        world.land(told(LONG, 20, id=1, word="a", qty=BIG))
    assert world.context().ledger.schema_changes.changes("readings") == ()
    world.close()


def test_a_float_that_nobody_has_written_rounds_nothing(tmp_path: Path) -> None:
    """It stops; what helps is in the line."""
    world = MirrorWorld(tmp_path, EVOLVING)
    single, whole = ({**INT, "ratio": kind} for kind in ("float", "double"))
    world.land(told(single, 10, id=1, word="a", qty=1, ratio=0.1))
    with pytest.raises(BatchRefused, match="column ratio was taken up as float, and is double") as refused:
        world.land(told(whole, 20, id=1, word="a", qty=1, ratio=0.123456789))
    lines = re.findall(r"- (\{.*?\})", refused.value.advice)
    columns = "".join(f"  - {{{line}}}\n" for line in lines)
    world.pipeline = mirror(world.folder, EVOLVING.replace("sink:", f"{columns}sink:"))
    ingest.write(world.context(), "run 2")
    ingest.land(world.context(), "run 2")
    world.apply()
    assert [(row["ratio"], row["ratio_2"]) for row in seen(world)] == [(None, 0.123456789)]
    world.close()


def test_a_float_of_the_yaml_stays_its_authors(tmp_path: Path) -> None:
    world = MirrorWorld(tmp_path, EVOLVING.replace("sink:", "  - {{name: ratio, type: float}}\nsink:"))
    world.land(told({"id": "int32", "word": "string", "ratio": "double"}, 10, id=1, word="a", ratio=0.5))
    world.apply()
    assert [row["ratio"] for row in seen(world)] == [0.5]
    world.close()


def test_a_bad_message_of_another_table_widens_nothing(world: MirrorWorld) -> None:
    """Its key says that it is none of ours; so its schema says nothing of our columns."""
    _, value = told(LONG, 20, id=1, word="a", qty=BIG)
    with pytest.raises(BatchRefused, match="dirty"):
        world.land((b'{"order_id": 1}', value))
    assert kind_of(world) == "int"


# ---------------------------------------------------------------- the YAML, and what stands


def edited(world: MirrorWorld, before: str, after: str) -> None:
    world.pipeline = mirror(world.folder, NARROW.replace(before, after))


def test_the_yaml_that_says_the_wider_type_is_no_new_version(world: MirrorWorld) -> None:
    world.land(told(LONG, 20, id=1, word="a", qty=BIG))
    version = world.context().spec_version
    edited(world, "qty, type: int", "qty, type: bigint")
    assert world.context().spec_version == version
    world.land(told(LONG, 30, id=2, word="b", qty=BIG))
    world.apply()
    assert quantities(world) == [(1, BIG), (2, BIG)]


def test_a_type_that_has_grown_stays_without_the_policy(world: MirrorWorld) -> None:
    world.land(told(LONG, 20, id=1, word="a", qty=BIG))
    edited(world, "evolve", "ignore")
    world.land(told(LONG, 30, id=2, word="b", qty=BIG))
    world.apply()
    assert quantities(world) == [(1, BIG), (2, BIG)]


def test_a_person_may_widen_it_before(tmp_path: Path) -> None:
    """In Iceberg; and never back."""
    world = MirrorWorld(tmp_path, NARROW.replace("evolve", "ignore"))
    world.land(told(INT, 10, id=1, word="a", qty=1))
    world.apply()
    edited(world, "qty, type: int", "qty, type: bigint")
    world.land(told(LONG, 20, id=2, word="b", qty=BIG))
    world.apply()
    assert quantities(world) == [(1, 1), (2, BIG)]
    assert deep(world).problems == ()
    edited(world, "evolve", "ignore")
    with pytest.raises(SpecError, match="column qty was bigint, is int"):
        world.land(told(INT, 30, id=3, word="c", qty=1))
    world.close()


def test_show_tells_what_has_grown_and_propose_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events, world = AvroEvents(), MirrorWorld(tmp_path, NARROW.replace("qty, type: int", 'qty, type: "decimal(6, 2)"'))
    kinds = {**PRICED, "qty": decimal(12)}
    sent = events.told({**kinds}, 10, id=1, word="a", total=Decimal(1), qty=Decimal(1))
    yaml = world.pipeline
    reads(world, events)
    world.land(sent)
    world.close()
    tide = command_line(world, monkeypatch, NARROW.replace("qty, type: int", 'qty, type: "decimal(6, 2)"'))
    shown = "qty decimal(12,2), from $.qty: the YAML says decimal(6,2), which it has outgrown; first seen in batch 1"
    assert shown in tide("show", "readings").stdout
    told_so = {
        c["column"]: (c["in_yaml"], c["yaml_type"])
        for c in json.loads(tide("show", "readings", "--json").stdout)["columns"]
    }
    assert told_so == {"total": (False, None), "qty": (True, "decimal(6,2)")}
    written = tide("propose", "readings", "--write")
    assert "column qty has grown from decimal(6,2) to decimal(12,2)\n" in written.stdout, written.output
    assert '+  - {name: qty, type: "decimal(12,2)"}\n' in written.stdout
    version = world.context().spec_version
    world.pipeline = replace(load_file(world.folder / "readings.yaml"), format=yaml.format)
    reads(world, events)
    assert world.context().spec_version == version
    assert "has grown" not in tide("propose", "readings").stdout
    assert "qty decimal(12,2), from $.qty: the YAML decides" in tide("show", "readings").stdout
    world.close()
