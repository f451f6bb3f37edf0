"""Computed columns and `where`: what they may be, what they make of a row, and where the row then goes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from engine_fixtures import (
    DAY_ONE,
    HOUR,
    all_rows,
    chunk_of,
    event,
    job_plan,
    pipeline,
    records,
    replay_plan_of,
    serving,
)

from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.expressions import Expressions, Refused
from spark_jobs.engine.failures import JobError
from spark_jobs.engine.formats import Bad
from spark_jobs.engine.job import run_plan
from spark_jobs.engine.types import arrow_type
from tidegate.core.base.hivetypes import parse
from tidegate.core.base.offsets import Interval
from tidegate.core.base.plain import to_plain
from tidegate.core.files.receipt import DATA, DIRTY, LATE
from tidegate.core.spec.pipeline import Column, EventTime, Format, Pipeline
from tidegate.core.window.lateness import Floor
from tidegate.storage import LocalStorage

NOON = datetime(2013, 1, 5, 12, 34, 56, 789_000, tzinfo=UTC)
INPUTS = {
    "i": ("int", [7, -3, None]),
    "big": ("bigint", [2**40, 1, None]),
    "f": ("double", [1.0, 1.5, None]),
    "d": ("decimal(10,2)", [Decimal("1.25"), Decimal("3.00"), None]),
    "s": ("string", ["UA", "7", None]),
    "b": ("binary", [b"\x00\xff", b"", None]),
    "t": ("timestamp", [NOON, NOON, None]),
    "day": ("date", [NOON.date(), NOON.date(), None]),
    "l": ("array<int>", [[1, 2], [], None]),
    "m": ("map<string,int>", [[("k", 1)], [], None]),
    "o": ("struct<x:int,at:timestamp>", [{"x": 1, "at": NOON}, {"x": None, "at": None}, None]),
    "ok": ("boolean", [True, False, None]),
}


def spec(*computed: Column, where: str | None = None) -> Pipeline:
    columns = (*(Column(name=name, type=kind, path=f"$.{name}") for name, (kind, _) in INPUTS.items()), *computed)
    return replace(pipeline("/x"), columns=columns, where=where, partition_by=("date", "hour"))


def computed(kind: str, expr: str, nullable: bool = True) -> Column:
    return Column(name="out", type=kind, path="", nullable=nullable, expr=expr)


def inputs() -> pa.Table:
    return pa.table({name: pa.array(values, arrow_type(parse(kind))) for name, (kind, values) in INPUTS.items()})


def out(kind: str, expr: str) -> tuple[list, dict[int, str]]:
    """The column's values, and the reasons of rows that have none."""
    found = Expressions(spec(computed(kind, expr))).compute(inputs())
    assert found.table.schema.field("out").type == arrow_type(parse(kind))
    return found.table["out"].to_pylist(), {row: reason for row, (_, reason) in found.failed.items()}


def refusal(kind: str, expr: str) -> str:
    with pytest.raises(Refused) as refused:
        Expressions(spec(computed(kind, expr)))
    ((name, text),) = refused.value.problems
    assert name == "out"
    return text


# ---------------------------------------------------------------- values

VALUES = [
    ("bigint", "i * big", [7 * 2**40, -3, None]),
    ("string", "upper(s) || '!'", ["UA!", "7!", None]),
    ("string", "case when i > 0 then 'plus' else 'minus' end", ["plus", "minus", "minus"]),
    ("int", "coalesce(i, 0)", [7, -3, 0]),
    ("timestamp", "date_trunc('hour', t)", [NOON.replace(minute=0, second=0, microsecond=0)] * 2 + [None]),
    ("timestamp", "t", [NOON, NOON, None]),
    ("timestamp", "to_timestamp(epoch(t))", [NOON, NOON, None]),
    ("date", "cast(t as date)", [NOON.date(), NOON.date(), None]),
    ("int", "extract(hour from t)", [12, 12, None]),
    ("array<int>", "list_transform(l, lambda x: x + 1)", [[2, 3], [], None]),
    ("int", "list_sum(l)", [3, None, None]),
    ("int", "list_aggregate(l, 'max')", [2, None, None]),
    ("map<string,int>", "m", [[("k", 1)], [], None]),
    ("struct<x:int,at:timestamp>", "o", INPUTS["o"][1]),
    ("timestamp", "o.at", [NOON, None, None]),
    ("int", "m['k']", [1, None, None]),
    ("binary", "b", [b"\x00\xff", b"", None]),
    ("boolean", "i in (7, 8)", [True, False, None]),
    ("string", "nullif(s, '7')", ["UA", None, None]),
    ("string", "NULL", [None, None, None]),
    ("double", "i", [7.0, -3.0, None]),
    ("decimal(12,4)", "d", [Decimal("1.2500"), Decimal("3.0000"), None]),
    ("decimal(4,2)", "f", [Decimal("1.00"), Decimal("1.50"), None]),
    ("string", "s -- the carrier", ["UA", "7", None]),
    ("string", "'a\"*raw\"b'", ['a"*raw"b'] * 3),
]


@pytest.mark.parametrize(("kind", "expr", "values"), VALUES)
def test_values(kind, expr, values):
    assert out(kind, expr) == (values, {})


UNFIT = [
    ("int", "big", {0: "1099511627776 does not fit in int"}),
    ("int", "f", {1: "1.5 does not fit in int"}),
    ("int", "d", {0: "1.25 does not fit in int"}),
    ("tinyint", "i * 100", {0: "700 does not fit in tinyint", 1: "-300 does not fit in tinyint"}),
    ("decimal(10,1)", "d", {0: "1.25 does not fit in decimal(10,1)"}),
    ("decimal(2,2)", "f", {0: "1.0 does not fit in decimal(2,2)", 1: "1.5 does not fit in decimal(2,2)"}),
    ("decimal(10,2)", "f / 3", {0: "0.3333333333333333 does not fit in decimal(10,2)"}),
    ("double", "f / 0", {0: "inf does not fit in double", 1: "inf does not fit in double"}),
    ("float", "f * 1e300", {0: "1e+300 does not fit in float", 1: "1.5e+300 does not fit in float"}),
    ("int", "cast(s as int)", {0: "cannot be computed: Could not convert string 'UA' to INT32"}),
    ("int", "i // (i - 7)", {0: "cannot be computed: Division by zero"}),
    ("bigint", "big * 9000000", {0: "cannot be computed: Overflow in multiplication"}),
    ("date", "cast('infinity' as date)", dict.fromkeys(range(3), "infinity does not fit in date")),
]


@pytest.mark.parametrize(("kind", "expr", "reasons"), UNFIT)
def test_a_row_that_has_no_value_is_dirty_and_its_neighbours_are_not(kind, expr, reasons):
    values, found = out(kind, expr)
    assert found.keys() == reasons.keys()
    assert [text for row, text in reasons.items() if not found[row].startswith(text)] == []
    assert [values[row] for row in reasons] == [None] * len(reasons)


def test_an_error_in_one_column_is_not_another_columns():
    """Both have the failing part in common."""
    one, two = (
        Column(name="one", type="int", path="", nullable=True, expr="cast(s as int)"),
        Column(name="two", type="int", path="", nullable=True, expr="cast(s as int) + 1"),
    )
    found = Expressions(spec(one, two, where="cast(s as int) > 0")).compute(inputs())
    assert found.table.select(["one", "two"]).to_pydict() == {"one": [None, 7, None], "two": [None, 8, None]}
    assert found.kept.to_pylist() == [False, True, False]
    assert {row: name for row, (name, _) in found.failed.items()} == {0: "one"}


def test_null_where_null_may_not_be():
    found = Expressions(spec(computed("int", "i", nullable=False))).compute(inputs())
    assert found.failed == {2: ("out", "is null, but the column is not nullable")}


def test_columns_may_read_columns_that_come_after_them():
    last, first = (
        Column(name="z", type="int", path="", nullable=True, expr="y + 1"),
        Column(name="y", type="tinyint", path="", nullable=True, expr="i"),
    )
    found = Expressions(spec(last, first)).compute(inputs())
    assert found.table.column_names == [*INPUTS, "z", "y"]
    assert found.table["z"].to_pylist() == [8, -2, None]


def test_many_failures_are_told_in_time():
    rows = pa.table({name: pa.array(values * 10_000, arrow_type(parse(k))) for name, (k, values) in INPUTS.items()})
    found = Expressions(spec(computed("int", "cast(s as int)"))).compute(rows)
    assert set(found.failed) == set(range(0, 30_000, 3))
    assert all(reason for _, reason in found.failed.values())


# ---------------------------------------------------------------- what is refused

NEVER = [
    *("random()", "now()", "current_date", "current_timestamp", "localtimestamp", "current_localtimestamp()"),
    *("uuid()", "gen_random_uuid()", "today()", "age(t)", "ago(interval 1 day)", "txid_current()", "version()"),
    *("hash(s)", "current_user", "current_user()", "current_setting('TimeZone')", "getvariable('x')", "nextval('s')"),
    *("list_transform(l, lambda x: random())", "system.main.random()", "sleep_ms(1)", "write_log('x')"),
    *("read_text('/etc/passwd')", "read_csv('x')", "getenv('HOME')", "glob('*')", "unnest(l)", "query('select 1')"),
    *("list_aggregate(l, 'reservoir_quantile', 0.5)", "list_aggregate(l, s)", "list_reservoir_quantile(l, 0.5)"),
    *("(select 1)", "exists(select 1)", "i in (select 1)", "sum(i)", "count(*)", "max(i)", "sum(i) over ()"),
    *("row_number() over ()", "*", "columns('i')", "$1", "?", "#1", "default", "pg_get_viewdef(1)"),
    *("1) from read_csv('x') where (1=1", "1); select (2", "1), (2", "i; drop table x", "i +", "/*", "--"),
    *("rowid", '"*rows".i', "nosuch", "nosuch(i)", "i + s", "regexp_matches(s, '(')"),
]


@pytest.mark.parametrize("expr", NEVER)
def test_what_is_no_function_of_the_row_is_refused(expr):
    assert refusal("int", expr)
    with pytest.raises(Refused) as refused:
        Expressions(spec(where=expr))
    assert [name for name, _ in refused.value.problems] == ["where"]


@pytest.mark.parametrize(
    ("kind", "expr", "said"),
    [
        ("int", "carier", "there is no column carier; there are"),
        ("int", "bigg", "(did you mean big?)"),
        ("string", "uper(s)", "there is no function uper() (did you mean upper()?)"),
        ("string", "i", "gives INTEGER, the column is string; write cast(... as VARCHAR)"),
        ("int", "s", "gives VARCHAR, the column is int; write cast(... as INTEGER)"),
        ("timestamp", "day", "gives DATE, the column is timestamp"),
        ("array<bigint>", "l", "gives INTEGER[], the column is array<bigint>; write cast(... as BIGINT[])"),
        ("string", "s::json", "gives JSON, the column is string"),
        ("int", "out + 1", "reads itself: out"),
        ("int", "i i", "is not SQL: syntax error"),
    ],
)
def test_refusals_say_what_to_write(kind, expr, said):
    assert said in refusal(kind, expr)


def test_a_column_named_like_a_word_of_sql_is_told_to_be_quoted():
    reserved = replace(spec(), columns=(Column(name="order", type="int", path="$.order"),), where="order > 1")
    with pytest.raises(Refused, match='order is a word of SQL: write the column as "order"'):
        Expressions(reserved)
    Expressions(replace(reserved, where='"order" > 1'))


def test_every_problem_is_told_at_once():
    one, two = (
        Column(name="one", type="int", path="", nullable=True, expr="nosuch"),
        Column(name="two", type="int", path="", nullable=True, expr="random()"),
    )
    circle = (
        Column(name="x", type="int", path="", nullable=True, expr="y"),
        Column(name="y", type="int", path="", nullable=True, expr="x"),
    )
    with pytest.raises(Refused) as refused:
        Expressions(spec(one, two, *circle, where="i"))
    assert [name for name, _ in refused.value.problems] == ["one", "two", "x", "y", "where"]


def test_an_error_that_even_try_lets_through_is_its_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Expressions(spec(computed("int", "i + 1"), where="i > 0"))
    run = made._run

    def fails(rows: pa.Table, *, careful: bool) -> pa.Table:
        if 2**40 in rows["big"].to_pylist():
            raise duckdb.OutOfRangeException("Out of Range Error: too much")
        return run(rows, careful=careful)

    made._inputs.append("big")
    monkeypatch.setattr(made, "_run", fails)
    found = made.compute(inputs())
    assert {row: name for row, (name, _) in found.failed.items()} == {0: "out"}
    assert found.table["out"].to_pylist() == [None, -2, None]
    assert found.kept.to_pylist() == [False, False, False]


def test_what_is_no_rows_fault_fails_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a machine without memory would make every row dirty."""
    made = Expressions(spec(computed("int", "i + 1")))

    def fails(rows: pa.Table, *, careful: bool) -> pa.Table:
        raise duckdb.OutOfMemoryException("Out of Memory Error: none left")

    monkeypatch.setattr(made, "_run", fails)
    with pytest.raises(duckdb.OutOfMemoryException):
        made.compute(inputs())


# ---------------------------------------------------------------- in a batch


def run(plan, topic):
    return run_plan(plan, LocalStorage(), open_reader=serving(topic))


def test_rows_go_to_dirty_then_filtered_then_late_then_data(tmp_path):
    base = pipeline(tmp_path)
    columns = (
        Column(
            name="site", type="string", path="", nullable=True, expr="lower(raw_site)"
        ),  # a partition column, computed
        Column(name="count", type="int", path="$.count"),
        Column(name="double", type="tinyint", path="", nullable=True, expr="count * 2"),
        Column(name="raw_site", type="string", path="$.site", nullable=True, expr=None, hidden=True),
    )
    filtered = replace(base, columns=columns, where="count <> 13 and raw_site <> 'gone'")
    closed = Floor(DAY_ONE, (Interval(DAY_ONE, DAY_ONE + HOUR),))
    at = DAY_ONE + HOUR
    values = [
        event(at, site="A", count=1),  # data
        event(at + 1000, site="A", count=13),  # filtered
        event(at, site="A"),  # null: filtered
        event(site="A", count=13),  # late, but filtered
        event(site="A", count=2),  # late
        event(at, site="A", count=64),  # dirty: 128 does not fit
        event(at, site="gone", count=100),  # dirty before it is filtered
        event(at + 2000, site="gone", count=3),  # filtered, and the newest event of all
        b"rubbish",
    ]
    plan = job_plan(filtered, [(0, 0, 9)], floor=closed)
    receipt = run(plan, {0: records(values)})
    (found,) = receipt.ranges
    assert (found.read, found.data, found.late, found.dirty, found.filtered) == (9, 1, 1, 3, 4)
    assert found.max_event_ms == at + 2000, "filtered rows move the watermark"
    assert [(r["site"], r["count"], r["double"]) for r in all_rows(plan, receipt, DATA)] == [("a", 1, 2)]
    assert "raw_site" not in all_rows(plan, receipt, DATA)[0]
    assert [(r["site"], r["_offset"]) for r in all_rows(plan, receipt, LATE)] == [("a", 4)]
    assert [(r["field"], r["_offset"]) for r in all_rows(plan, receipt, DIRTY)] == [
        ("double", 5),
        ("double", 6),
        ("", 8),
    ]
    assert {f.values for f in receipt.files if f.kind == DATA} == {(("site", "a"),)}


def test_captured_fields_and_kafkas_time_go_with_computed_columns(tmp_path):
    base = pipeline(tmp_path, event_time=EventTime(None), format=Format(unknown_fields="capture"))
    twice = Column(name="twice", type="int", path="", expr="count * 2")
    made = replace(base, columns=(*base.columns, twice), where="count > 1")
    plan = job_plan(made, [(0, 0, 2)])
    receipt = run(plan, {0: records([event(count=1, odd="x"), event(count=2, odd="y")])})
    ((row),) = all_rows(plan, receipt, DATA)
    assert (row["twice"], dict(row["_extra"])["odd"]) == (4, '"y"')
    assert receipt.ranges[0].filtered == 1


def test_where_that_cannot_be_decided_makes_the_row_dirty(tmp_path):
    strict = replace(pipeline(tmp_path), where="cast(site as int) > 1")
    receipt = run(job_plan(strict, [(0, 0, 3)]), {0: records([event(site="x"), event(site="2"), event(site="1")])})
    (found,) = receipt.ranges
    assert (found.data, found.dirty, found.filtered) == (1, 1, 1)
    assert [s.field for s in receipt.samples] == ["where"]


def test_a_wrong_expression_refuses_the_batch_by_name(tmp_path):
    wrong = replace(pipeline(tmp_path), where="sight = 'a'")
    with pytest.raises(JobError, match=r"where: there is no column sight \(did you mean site\?\)") as refused:
        run(job_plan(wrong, [(0, 0, 1)]), {0: records([event()])})
    assert not refused.value.failure.retry
    assert refused.value.failure.field == "where"


def test_the_decoder_keeps_what_it_said_of_a_bad_message():
    base = replace(spec(computed("int", "i + 1", nullable=False)), partition_by=("date", "hour"))
    found = decoder_for(base).decode(chunk_of([b"rubbish", event(i="x"), event(i=1)]))
    assert found.bad.keys() == {0, 1}
    assert found.bad[1] == Bad("expected an integer, got a string", "i")
    assert found.table["out"].to_pylist()[2] == 2


def test_a_replay_filters_by_the_pinned_where_and_computes_by_todays_columns(tmp_path):
    then = replace(pipeline(tmp_path), where="count > 1")
    today = replace(
        then,
        where="count > 2",
        columns=(*then.columns, Column(name="twice", type="int", path="", nullable=True, expr="count * 2")),
    )
    ingest = job_plan(then, [(0, 0, 3)])
    (part,) = ingest.parts
    plan = replay_plan_of(
        job_plan(today, []),
        parts=(replace(part, pinned=to_plain(then)),),
        window_ms=DAY_ONE,
        attempt="w.2.1-abc",
        attempt_dir=f"{today.sink.workdir}/tmp/w.2.1-abc",
    )
    receipt = run(plan, {0: records([event(count=1), event(count=2), event(count=3)])})
    assert [(r["count"], r["twice"]) for r in all_rows(plan, receipt, DATA)] == [(2, 4), (3, 6)]
    assert receipt.ranges[0].dropped == 1


def test_columns_that_do_not_read_each_other_share_a_select(tmp_path: Path) -> None:
    """DuckDB needs ten seconds for a chunk in a hundred nested selects."""

    def selects(*texts: str) -> int:
        columns = (Column(name=f"c{n}", type="int", path=None, expr=text) for n, text in enumerate(texts))
        spec = pipeline(tmp_path, columns=(Column(name="site", type="string", path="$.site"), *columns))
        expressions = Expressions(spec)
        found = expressions.compute(pa.table({"site": ["x", None]})).table
        assert found["c0"].to_pylist() == [1, None]
        assert found[f"c{len(texts) - 1}"].to_pylist() == [len(texts), None]
        return expressions._query(careful=False).count("select ")

    one = selects("length(site)")
    assert selects(*(f"length(site) + {n}" for n in range(40))) == one
    assert one < selects("length(site)", "c0 + 1") < selects("length(site)", "c0 + 1", "c1 + 1")
