"""Files of every format and codec, written by the worker's writer, read through PyHive: Spark 3.5 and Hive 4.

What DuckDB and PyArrow read of the same values is in tests/worker/test_sinks.py.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_jobs.engine.sinks import Encoding, format_of
from spark_jobs.engine.write import Files, Place, Run
from tests.engine_fixtures import DAY_ONE, pipeline
from tests.file_values import COLUMNS, FLAT, rows_of
from tidegate.core.files.receipt import DATA
from tidegate.storage.local import LocalStorage
from tidegate.targets.hive.catalogue import PyHiveCatalogue
from tidegate.targets.hive.ports import TableDef

DATABASE = "formats_" + uuid.uuid4().hex[:8]
ALL = ("zstd", "snappy", "gzip", "none")
CODECS = {"parquet": ALL, "orc": ALL, "text": ("gzip", "none")}
ROWS = 400
SHOWN = {"string": "hex({0})", "binary": "hex({0})", "timestamp": "cast({0} AS string)", "date": "cast({0} AS string)"}
INSIDE = (
    "size(`list`)", "hex(`list`[0])", "hex(`list`[1])", "size(`map`)", "`map`['k']", "hex(place.city)",
    "cast(place.at AS string)", "place.codes[0]",
)  # fmt: skip


def shown(table: pa.Table) -> list[tuple]:
    """What a query for SHOWN and INSIDE has to return."""
    columns = []
    for name, kind in table_columns(table):
        column = table[name]
        if kind in ("string", "binary"):
            columns.append([None if v is None else _hex(v) for v in column.to_pylist()])
        elif kind == "timestamp":
            columns.append(_times(column))
        elif kind == "date":
            columns.append(column.cast(pa.string()).to_pylist())
        else:
            columns.append(column.to_pylist())
    rows = [_plain(row) for row in zip(*columns, strict=True)]
    if "place" in table.column_names:
        rows = [a + b for a, b in zip(rows, _inside(table), strict=True)]
    return sorted(rows)


def table_columns(table: pa.Table) -> list[tuple[str, str]]:
    return [c for c in FLAT if c[0] in table.column_names]


def _inside(table: pa.Table) -> list[tuple]:
    times = _times(pa.chunked_array([pc.struct_field(c, "at") for c in table["place"].chunks]))
    found = []
    for words, pairs, place, at in zip(*(table[n].to_pylist() for n in ("list", "map", "place")), times, strict=True):
        first, second = ([_hex(v) for v in (words or [])[:2]] + [None, None])[:2]
        row = (
            -1 if words is None else len(words), first, second, -1 if pairs is None else len(pairs),
            dict(pairs or []).get("k"), None if place is None else _hex(place["city"]), at,
            None if place is None else (place["codes"] or [None])[0],
        )  # fmt: skip
        found.append(tuple(map(repr, row)))
    return found


def _hex(value: str | bytes | None) -> str | None:
    return None if value is None else (value.encode() if isinstance(value, str) else value).hex().upper()


def _times(column: pa.ChunkedArray) -> list[str | None]:
    texts = column.cast(pa.timestamp("us")).cast(pa.string()).to_pylist()
    return [None if t is None else t.rstrip("0").rstrip(".") for t in texts]


@pytest.fixture(params=["hive_spark", "hive4"])
def catalogue(request: pytest.FixtureRequest) -> PyHiveCatalogue:
    info = request.getfixturevalue(request.param)
    return PyHiveCatalogue(info.hive_host, info.hive_port, request_timeout_s=300)


@pytest.mark.parametrize("name", CODECS)
def test_readers_see_the_values_that_were_written(
    catalogue: PyHiveCatalogue, name: str, tmp_path: Path, rng: random.Random
) -> None:
    columns = FLAT if name == "text" else COLUMNS
    table = TableDef(
        name=f"{DATABASE}.as_{name}",
        columns=columns,
        partitions=(("codec", "string"),),
        location=f"file://{tmp_path}/t",
        format=name,
    )
    catalogue.ensure_table(table)
    catalogue.ensure_table(table)  # it is recognised as the one that was asked for
    rows = {codec: rows_of(columns, rng, ROWS, far=name != "orc") for codec in CODECS[name]}
    places = {(("codec", codec),): written(name, codec, table, tmp_path) for codec, table in rows.items()}
    if name == "parquet":
        rows["joined"], places[(("codec", "joined"),)] = joined(rows["zstd"], tmp_path)
    catalogue.add_partitions(table.name, places)
    chosen = [SHOWN.get(kind, "{0}").format(f"`{n}`") for n, kind in FLAT]
    chosen += list(INSIDE) if name != "text" else []
    found = catalogue.execute(f"SELECT `codec`, {', '.join(chosen)} FROM {table.name}")
    for codec, wanted in rows.items():
        seen = [_plain(row[1:]) for row in found if row[0] == codec]
        assert sorted(seen) == shown(wanted), (name, codec)


def written(name: str, codec: str, rows: pa.Table, folder: Path) -> str:
    """The URI of a directory with these rows, as a task writes them: slices of one table."""
    spec = pipeline(folder)
    spec = replace(spec, sink=replace(spec.sink, format=name, compression=codec))
    root = f"file://{folder}/{codec}"
    files = Files(spec, root, "1", {}, LocalStorage().open_new)
    for at in range(0, len(rows), 150):
        part = rows.slice(at, 150)
        files.append(Place(DATA, DAY_ONE, ()), part, Encoding([], []), 0, None, [Run(0, 0, len(part), at, at)])
    (entry,) = files.close()
    return f"{root}/{entry.path.rpartition('/')[0]}"


def joined(rows: pa.Table, folder: Path) -> tuple[pa.Table, str]:
    """A file whose row groups are copied but for one, as a merge makes it."""
    file_format, place = format_of("parquet"), folder / "joined"
    place.mkdir()
    with (place / "part.parquet").open("wb") as stream:
        writer = file_format.join(stream, rows.schema, Encoding(["words"], []), "zstd")
        for path in sorted((folder / "zstd").rglob("*.parquet")):
            assert writer.takes(path.read_bytes())
            writer.write(rows.slice(10, 20))
            assert writer.takes(path.read_bytes())
        assert writer.close({"a": "b"}) == 2 * len(rows) + 20
    return pa.concat_tables([rows, rows.slice(10, 20), rows]), f"file://{place}"


def _plain(row: Sequence[Any]) -> tuple[str, ...]:
    """Servers spell a 32-bit float in several ways."""
    single = [n for n, _ in FLAT].index("single")
    return tuple(repr(_single(v) if i == single else v) for i, v in enumerate(row))


def _single(value: float | None) -> float | None:
    return None if value is None else float(np.float32(value))
