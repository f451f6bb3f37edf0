"""What `tidegate doctor` says of an Iceberg pipeline, and what a host without pyiceberg says."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.targets.iceberg.lab import make, sqlite
from tests.targets.iceberg.test_iceberg_rest import Told, server
from tests.world import make_pipeline
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import CatalogueError
from tidegate.core.doctor.findings import OK, WARNING, WRONG, Finding
from tidegate.core.files.receipt import DATA
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.tables import properties_of
from tidegate.kinds import target_kind
from tidegate.targets.iceberg import metadata
from tidegate.targets.iceberg.definition import Definition

__all__ = ["server"]
PLACE = "/api/v1/main/namespaces/lake/tables/readings"


def a_pipeline() -> Pipeline:
    made = make_pipeline("file:///lake/readings")
    return replace(made, sink=replace(made.sink, kind="iceberg", conn_id="lake", table="lake.readings"))


def connection(**fields: Any) -> Connection:
    usual = {"host": None, "port": None, "login": None, "password": None, "schema": None, "extra": {}}
    return Connection(**{"conn_id": "lake", **usual, **fields})


def examined(c: Connection, pipeline: Pipeline | None = None) -> Finding:
    [found] = target_kind("iceberg").examined(pipeline or a_pipeline(), c, 2.0)
    return found


def rest(server: Told) -> Connection:
    return connection(conn_type="iceberg", host=f"http://127.0.0.1:{server.port}/api")


def shows(server: Told, owner: str, location: str = "file:///lake/readings") -> None:
    definition = Definition(a_pipeline(), DATA)
    schema = definition.schema()
    said = dict(properties_of(a_pipeline(), DATA)) | {"tidegate.pipeline": owner}
    made = metadata.new(schema, definition.spec(schema), location, said)
    table = {"metadata": json.loads(made.model_dump_json(exclude_none=True)), "metadata-location": "file:///lake/m"}
    server.answers[PLACE] = (200, table)


def test_whose_the_table_is(server: Told) -> None:
    found = examined(rest(server))
    assert (found.level, "lake.readings will be made by the first batch" in found.what) == (OK, True)
    shows(server, a_pipeline().name)
    assert "lake.readings is this pipeline's" in examined(rest(server)).what
    shows(server, "trams")
    found = examined(rest(server))
    assert (found.level, found.about) == (WRONG, a_pipeline().name)
    assert "lake.readings is the table of pipeline trams" in found.what
    assert "sink.table" in found.mend
    shows(server, a_pipeline().name, "file:///elsewhere")
    assert "file:///elsewhere" in examined(rest(server)).what


def test_a_catalogue_in_sql_is_asked_without_its_files(tmp_path: Path) -> None:
    """Metadata is in storage there, which is another check's."""
    c = connection(conn_type="sqlite", host=f"{tmp_path}/catalogue.db", extra={"catalog_name": "tidegate"})
    lab = make(tmp_path, sqlite(tmp_path))
    lab.world.close()
    assert "lake.readings will be made by the first batch" in examined(c).what
    assert examined(c, lab.world.pipeline).what == f"the catalogue at {tmp_path}/catalogue.db answers"


def test_a_catalogue_that_does_not_answer_or_refuses(server: Told) -> None:
    server.answers["/api/v1/config"] = (401, {"error": {"message": "who are you"}})
    found = examined(rest(server))
    assert (found.level, "401 who are you" in found.what) == (WRONG, True)
    assert "sink.catalog_conn_id" in found.mend
    found = examined(connection(conn_type="iceberg", host="http://127.0.0.1:9"))
    assert (found.level, "no connection" in found.what) == (WRONG, True)


def test_a_host_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.startswith(("pyiceberg", "tidegate.targets.iceberg."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    found = examined(connection(conn_type="iceberg", host="http://127.0.0.1:9"))
    assert (found.level, "pyiceberg is not installed" in found.what) == (WRONG, True)
    assert "pip install 'pyiceberg==0.12.*'" in found.mend
    tables = target_kind("iceberg").opened(a_pipeline(), lambda conn_id: connection(conn_type="iceberg"), False)
    site: Any = None
    for ask in (lambda: tables.data(site), lambda: tables.side(site, "late")):
        with pytest.raises(CatalogueError, match="pyiceberg") as told:
            ask()
        assert not told.value.retry
        assert "pip install 'pyiceberg==0.12.*'" in told.value.advice


def test_another_version_of_the_library(monkeypatch: pytest.MonkeyPatch, server: Told) -> None:
    """Airflow's constraints may pin one."""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.8.1")
    found = examined(rest(server))
    assert (found.level, "pyiceberg 0.8.1" in found.what) == (WARNING, True)
    assert "pip install 'pyiceberg==0.12.*'" in found.mend


def test_each_table_is_looked_at() -> None:
    """Two pipelines of one database may name the same table, or somebody else's."""
    assert target_kind("iceberg").each_table
    assert not target_kind("hive").each_table
