"""docs/iceberg.md: its YAML compiles, its connections open, its questions are answered by a real table."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyiceberg.table import StaticTable

from tests.docs.test_docs import DOCS, RECORDS, ROOT, found
from tests.target_suite import KEY, publish
from tests.targets.iceberg.lab import make, sqlite
from tidegate.core.base.connection import Connection
from tidegate.spec.loader import load_text
from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg.opening import opened

PAGE = (DOCS / "iceberg.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"(?ms)^```{kind}\n(.*?)^```$", PAGE)


def test_the_pipeline_compiles() -> None:
    [text] = blocks("yaml")
    sink = load_text(Path("readings.yaml"), text, {}).sink
    assert (sink.kind, sink.conn_id, sink.table) == ("iceberg", "iceberg_default", "lake.readings")


def test_the_connections_fit() -> None:
    usual: dict[str, Any] = {"host": None, "port": None, "login": None, "password": None, "schema": None, "extra": {}}
    made = [Connection(conn_id="lake", **{**usual, **json.loads(text)}) for text in blocks("json")]
    addresses = [opened(c, LocalStorage(), 5.0).address for c in made]
    assert addresses == ["https://catalogue.example/api", "catalogue-db:5432/catalogue"]


def test_is_this_hour_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalogue = sqlite(tmp_path)
    lab = make(tmp_path, catalogue)
    lab.until_done(publish)
    lab.world.close()
    loaded = catalogue.load(lab.world.pipeline.sink.table)
    assert loaded is not None
    [python], [sql] = blocks("python"), blocks("sql")
    table, space = StaticTable.from_metadata(loaded.metadata_location), {}
    space["table"] = table
    exec(python.replace("2026, 1, 1, 5", "2013, 1, 5, 0").replace("2026-01-01T05", "2013-01-05T00"), space)  # type: ignore[arg-type]
    rows = len(space["rows"])  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert f"'tidegate.unit': '{KEY.start_ms}'" in said
    assert f"'tidegate.rows': '{rows}'" in said
    assert rows > 0
    assert said.splitlines()[-1] == "2013-01-05T01:00Z"
    path = loaded.metadata_location.removeprefix("file://")
    asked = re.sub(r"read_json\('[^']*'", f"read_json('{path}'", sql).replace("2026-01-01 05:00", "2013-01-05 00:00")
    assert duckdb.sql(asked).fetchall() == [("1", str(rows))]


def test_every_rule_of_iceberg_tables_is_in_the_overview_and_in_its_decision() -> None:
    rules = [f"C{n}" for n in range(1, 10)]
    overview = (DOCS / "architecture.md").read_text()
    assert re.findall(r"^\| (C\d) ", overview, re.MULTILINE) == rules
    [record] = [r.read_text() for r in RECORDS if r.name == "iceberg.md"]
    assert re.findall(r"^- \*\*(C\d) ", record, re.MULTILINE) == rules
    part = overview.split("### The rules of Iceberg tables")[1].split("\n## ")[0]
    named = re.findall(r"`(\w+\.py)(::\w+)?`", part)
    assert len(named) > 10
    assert [n for n in named if not found(f"plugins/tidegate/targets/iceberg/{n[0]}", n[1][2:])] == []
    tests = (ROOT / "tests/targets/iceberg/test_rules.py").read_text()
    assert [rule for rule in rules if f"def test_{rule.lower()}_" not in tests] == []
