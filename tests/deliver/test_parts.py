"""An hour that differs at a further system is divided: which of its partitions do, by count and checksum."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.engine.delivered import checksum
from tests.clickhouse.places import Place
from tests.databases.fixtures import mariadb, postgresql  # noqa: F401
from tests.databases.servers import Server
from tests.deliver.cluster_lab import TABLE, ClusterLab
from tests.deliver.iceberg_lab import IcebergLab
from tests.deliver.lab import Lab, Staged, Transactional
from tests.deliver.rows import T0, Made, attempt
from tests.deliver.test_relational import server  # noqa: F401
from tests.world import make_pipeline
from tidegate.core.deliver.parts import differing
from tidegate.core.deliver.port import WINDOW_COLUMN, Table
from tidegate.core.spec.pipeline import Column
from tidegate.databases.kinds import for_workers
from tidegate.kinds import delivery_kind
from tidegate.workflow.deliver import deliver

COLUMNS = (WINDOW_COLUMN, ("site", "string"), ("sort", "int"), ("id", "string"))
ROWS = [
    {"site": "a", "sort": 1, "id": "1"}, {"site": "a", "sort": 1, "id": "2"}, {"site": "a", "sort": 2, "id": "3"},
    {"site": None, "sort": 1, "id": "4"}, {"site": "ö/'", "sort": None, "id": "5"},
]  # fmt: skip


@pytest.fixture(params=[Transactional, Staged])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    return Lab(tmp_path, request.param)


def compared(lab: Lab) -> list[tuple[str, str, list[str]]]:
    """(what, why, partitions) of each hour that was sent."""
    with lab.context() as ctx:
        one = lab.pipeline.deliver[0]
        sender = ctx.sender(one)
        return [(s.what, s.why, [str(p) for p in s.parts]) for s in deliver.compare(ctx, one, sender)]


def test_the_partitions_that_differ_are_named(lab: Lab) -> None:
    lab.hours(2)
    lab.deliver()
    assert compared(lab) == [("unchanged", "", []), ("unchanged", "", [])]
    (a, b), whole = lab.server.rows[T0], list(lab.server.rows[T0])
    assert (a["site"].to_pylist(), b["site"].to_pylist()) == (["a"], ["b"])
    lab.server.rows[T0] = [changed(b, "id", "another"), a]
    assert compared(lab)[0] == (
        "differs", "values there are not those that were delivered", ["site=b: 1 row, other values there"],
    )  # fmt: skip
    lab.server.rows[T0] = [b, b, a]
    assert compared(lab)[0] == (
        "differs", "3 rows there, 2 were delivered", ["site=b: 1 row here, 2 there"]
    )  # fmt: skip
    lab.server.rows[T0] = [*whole, changed(a, "site", "c")]
    assert compared(lab)[0][2] == ["site=c: 0 rows here, 1 there"]
    lab.server.rows[T0] = [b]
    assert compared(lab) == [
        ("differs", "1 row there, 2 were delivered", ["site=a: 1 row here, 0 there"]), ("unchanged", "", []),
    ]  # fmt: skip


def changed(batch: pa.RecordBatch, column: str, value: str) -> pa.RecordBatch:
    """The same rows with another value in one of their columns."""
    at = batch.schema.get_field_index(column)
    return batch.set_column(at, batch.schema.field(at), pa.array([value] * len(batch), batch.schema.field(at).type))


def test_only_hours_that_differ_are_divided(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.hours(2)
    lab.deliver()
    lab.server.rows[T0].pop()
    asked = []
    real = lab.kind.parts
    monkeypatch.setattr(lab.kind, "parts", lambda self, at, rows: asked.append(at) or real(self, at, rows))
    compared(lab)
    assert asked == [T0]


def test_an_hour_whose_files_here_are_gone_differs_all_the_same(lab: Lab) -> None:
    lab.hours(1)
    lab.deliver()
    lab.server.rows[T0].pop()
    for file in (lab.world.folder / "lake").rglob("*.parquet"):
        file.unlink()
    ((what, why, parts),) = compared(lab)
    assert (what, parts) == ("differs", [])
    assert why.startswith("1 row there, 2 were delivered; its partitions could not be compared: file://")


# ---------------------------------------------------------------- another cluster


@pytest.mark.parametrize("kind", [ClusterLab, IcebergLab])
def test_partitions_of_a_copy(kind: type[ClusterLab], tmp_path: Path) -> None:
    lab = kind(tmp_path)
    lab.hours(2)
    lab.deliver()
    assert compared(lab) == [("unchanged", "", []), ("unchanged", "", [])]
    lab.lose_a_file(0)
    assert compared(lab)[0][1:] == ("1 row there, 2 were delivered", ["site=a: 1 row here, 0 there"])
    with lab.context() as ctx:
        sender = ctx.sender(lab.one)
        found = deliver.fix(ctx, lab.one, sender, list(deliver.compare(ctx, lab.one, sender)), "a file was lost")
    assert [(s.what, len(s.parts)) for s in found] == [("delivered", 1), ("unchanged", 0)]
    assert compared(lab) == [("unchanged", "", []), ("unchanged", "", [])]


DAMAGES: dict[str, tuple[Callable[[ClusterLab, Path], Any], str]] = {
    "bytes": (lambda lab, file: file.write_bytes(flipped(file.read_bytes())), "site=a: 1 row, other values there"),
    "unreadable": (lambda lab, file: file.write_bytes(b"PAR1"), "site=a: 1 row here, 0 there"),
    "more": (lambda lab, file: shutil.copy(file, file.with_name("x.parquet")), "site=a: 1 row here, 2 there"),
    "a partition": (
        lambda lab, file: lab.far.add_partitions(TABLE, {(*hour(0), ("site", "c")): f"file://{file.parent}"}),
        "site=c: 0 rows here, 1 there",
    ),
    "no partition": (
        lambda lab, file: lab.far.drop_partitions(TABLE, [(*hour(0), ("site", "a"))]),
        "site=a: 1 row here, 0 there",
    ),
}


def hour(number: int) -> tuple[tuple[str, str], ...]:
    return ("date", "2013-01-05"), ("hour", f"{number:02}")


def flipped(content: bytes) -> bytes:
    """Another byte among the first page's."""
    return content[:12] + bytes([content[12] ^ 1]) + content[13:]


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_somebody_changes_in_a_copy_is_named(damage: str, tmp_path: Path) -> None:
    lab = ClusterLab(tmp_path)
    lab.hours(1)
    lab.deliver()
    (file,) = (f for f in lab.files() if "site=a" in str(f))
    change, said = DAMAGES[damage]
    change(lab, file)
    ((what, _, parts),) = compared(lab)
    assert (what, parts) == ("differs", [said])


# ---------------------------------------------------------------- databases


def test_partitions_in_a_database(server: Server) -> None:  # noqa: F811
    name = f"shop.t_{uuid.uuid4().hex[:8]}"
    system = delivery_kind(server.kind).opened(for_workers(server.connection), divided(name), checksum, 20.0)
    system.prepare()
    rows = Made(ROWS, columns=COLUMNS)
    system.send(attempt(1, 1, rows), rows, lambda: True)
    parts = system.parts(T0, rows)
    assert {tuple(value for _, value in p.values): p.here.rows for p in parts} == {
        ("a", "1"): 2, ("a", "2"): 1, (None, "1"): 1, ("ö/'", None): 1,
    }  # fmt: skip
    assert differing(parts) == ()
    server.run(f"DELETE FROM {name} WHERE id = '2'")
    server.run(f"UPDATE {name} SET id = 'x' WHERE id = '5'")
    server.run(f"UPDATE {name} SET sort = 3 WHERE id = '3'")
    assert [str(d) for d in differing(system.parts(T0, rows))] == [
        "site=a/sort=1: 2 rows here, 1 there",
        "site=a/sort=2: 1 row here, 0 there",
        "site=a/sort=3: 0 rows here, 1 there",
        "site=ö%2F%27/sort=__HIVE_DEFAULT_PARTITION__: 1 row, other values there",
    ]
    system.close()


def divided(name: str) -> Table:
    """A table whose hours are divided by two columns."""
    pipeline = make_pipeline("file:///nowhere")
    columns = tuple(Column(name=n, type=kind, path=f"$.{n}") for n, kind in COLUMNS[1:])
    spec = replace(pipeline, columns=columns, partition_by=("date", "hour", "site", "sort"))
    return Table(pipeline="readings", delivery="shop", name=name, columns=COLUMNS, spec=spec)


def test_partitions_in_clickhouse(place: Place) -> None:
    system = place.system(columns=COLUMNS)
    system._table = replace(divided(place.name), options=system._table.options)
    system.prepare()
    rows, fewer = Made(ROWS, columns=COLUMNS), Made([*ROWS[:1], *ROWS[2:4], {**ROWS[4], "id": "x"}], columns=COLUMNS)
    system.send(attempt(1, 1, rows), rows, lambda: True)
    assert differing(system.parts(T0, rows)) == ()
    assert len(system.parts(T0, rows)) == 4
    system.send(attempt(1, 2, fewer), fewer, lambda: True)
    assert [str(d) for d in differing(system.parts(T0, rows))] == [
        "site=a/sort=1: 2 rows here, 1 there",
        "site=ö%2F%27/sort=__HIVE_DEFAULT_PARTITION__: 1 row, other values there",
    ]
